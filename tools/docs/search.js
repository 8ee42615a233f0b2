// Ask the search of the built site, with the site's own search worker:
//     node tools/docs/search.js WORKER.js search.json < questions, as a JSON list
// Prints for each question the locations that the search box would show, as a JSON list of lists.
"use strict";
const fs = require("node:fs");
const vm = require("node:vm");

const [worker, index] = process.argv.slice(2);
const questions = JSON.parse(fs.readFileSync(0, "utf8"));
const replies = [];
let wake = () => {};
globalThis.self = globalThis;
globalThis.postMessage = (message) => {
  replies.push(message);
  wake();
};
vm.runInThisContext(fs.readFileSync(worker, "utf8"), { filename: worker });

async function ask(message) {
  globalThis.onmessage({ data: message });
  while (replies.length === 0) await new Promise((resolve) => (wake = resolve));
  const reply = replies.shift();
  if (reply.type === 4) throw new Error("the search worker failed at " + JSON.stringify(message).slice(0, 200));
  return reply;
}

async function main() {
  const built = JSON.parse(fs.readFileSync(index, "utf8"));
  await ask({ type: 0, data: built });
  const found = [];
  for (const question of questions) {
    const reply = await ask({ type: 2, data: { input: question, filter: { input: [], aggregation: [] } } });
    found.push(reply.data.items.map((item) => built.items[item.id].location));
  }
  process.stdout.write(JSON.stringify(found));
}

main();
