// What the programs of Yjs have in common: a document that is connected, and how the measuring side talks to them.
import readline from 'node:readline'
import WebSocket from 'ws'
import { WebsocketProvider } from 'y-websocket'
import * as Y from 'yjs'

export function connected (url) {
  const at = url.lastIndexOf('/')
  const doc = new Y.Doc()
  // Without the channel between tabs of a browser: everything shall go by the server.
  const provider = new WebsocketProvider(url.slice(0, at), url.slice(at + 1), doc, { WebSocketPolyfill: WebSocket, disableBc: true })
  return new Promise(resolve => provider.once('sync', () => resolve({ doc, provider })))
}

export const now = () => Number(process.hrtime.bigint()) / 1e6

export async function go () {
  const lines = readline.createInterface({ input: process.stdin })
  console.log('ready')
  await new Promise(resolve => lines.once('line', resolve))
}

export function done (result) {
  process.stdout.write(JSON.stringify(result) + '\n', () => process.exit(0))
}
