// node writers.mjs URL FIRST WRITERS COUNT: each writes its own key of one map, and again once the server has sent it back.
import { connected, done, go, now } from './shared.mjs'

const [url, first, writers, count] = process.argv.slice(2)
const all = await Promise.all(Array.from({ length: Number(writers) }, () => connected(url)))
await go()
const begun = now()
await Promise.all(all.map(({ doc, provider }, place) => new Promise(resolve => {
  const map = doc.getMap('board')
  const key = `w${Number(first) + place}`
  let written = 0
  const write = () => written < Number(count) ? map.set(key, written++) : resolve()
  let mine = null
  doc.on('update', (update, origin) => { if (origin !== provider) mine = update })
  provider.ws.addEventListener('message', event => {
    const data = new Uint8Array(event.data)
    // Kind, kind of sync message and length stand before the update.
    if (mine !== null && data[0] === 0 && data[1] === 2 && Buffer.from(data.subarray(data.length - mine.length)).equals(mine)) {
      mine = null
      write()
    }
  })
  write()
})))
// In seconds, as the light clients have it.
done({ begun: begun / 1e3, ended: now() / 1e3, ops: Number(writers) * Number(count) })
