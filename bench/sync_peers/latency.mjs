// node latency.mjs reader|writer URL COUNT GAP_MS: a writer puts the time under a key, a reader says how long ago it was.
import { connected, done, go, now } from './shared.mjs'

const [role, url, count, gap] = process.argv.slice(2)
const { doc } = await connected(url)
const map = doc.getMap('board')
if (role === 'reader') {
  const times = []
  map.observe(() => {
    times.push(now() - map.get('at'))
    if (times.length === Number(count)) done({ times })
  })
  await go()
} else {
  await go()
  for (let i = 0; i < Number(count); i++) {
    map.set('at', now())
    await new Promise(resolve => setTimeout(resolve, Number(gap)))
  }
  done({})
}
