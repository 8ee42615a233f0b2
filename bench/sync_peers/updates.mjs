// node updates.mjs WRITERS COUNT: what so many writers of Yjs would send, one line for each, for clients that only speak.
import * as encoding from 'lib0/encoding'
import * as syncProtocol from 'y-protocols/sync'
import * as Y from 'yjs'

const [writers, count] = process.argv.slice(2).map(Number)
for (let writer = 0; writer < writers; writer++) {
  const doc = new Y.Doc()
  const map = doc.getMap('board')
  const messages = []
  doc.on('update', update => {
    const encoder = encoding.createEncoder()
    encoding.writeVarUint(encoder, 0)
    syncProtocol.writeUpdate(encoder, update)
    messages.push(Buffer.from(encoding.toUint8Array(encoder)).toString('base64'))
  })
  for (let i = 0; i < count; i++) map.set(`w${writer}`, i)
  console.log(JSON.stringify(messages))
}
