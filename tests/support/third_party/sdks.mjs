// The vendors' SDKs for JavaScript have one conversation with the emulator at the URL given. Every request is printed
// as a line of JSON; an answer that an SDK cannot read, or that says something else, ends it with an error.

import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const [url, given] = process.argv.slice(2);
const { model, text, instructions, schema, tokens } = JSON.parse(given);
const KEY = "any key";
const plain = globalThis.fetch;

globalThis.fetch = async (target, options = {}) => {
  const { protocol, pathname, searchParams } = new URL(target.url ?? target);
  const sent = typeof options.body === "string" && options.body ? JSON.parse(options.body) : null;
  const query = Object.fromEntries(searchParams);
  const answer = await plain(target, options);
  const seen = { method: options.method ?? "GET", path: pathname, query, sent, status: answer.status };
  if (protocol === "http:") console.log(JSON.stringify(seen));
  return answer;
};

const advance = () => plain(`${url}/_emulator/advance`, { method: "POST", body: JSON.stringify({ seconds: 60 }) });
const all = async (pages) => {
  const found = [];
  for await (const each of await pages) found.push(each);
  return found;
};
const read = (said) => assert.equal(typeof JSON.parse(said).text, "string");

async function openai() {
  const { OpenAI, toFile } = await import("openai");
  const client = new OpenAI({ apiKey: KEY, baseURL: `${url}/openai/v1`, maxRetries: 0 });
  const format = { type: "json_schema", name: "answer", schema, strict: true };
  const asked = { model, input: text, instructions, max_output_tokens: tokens, store: false, text: { format } };
  read((await client.responses.create(asked)).output_text);
  const { type, ...json_schema } = format;
  const messages = [{ role: "system", content: instructions }, { role: "user", content: text }];
  const chat = { model, messages, max_completion_tokens: tokens, response_format: { type, json_schema } };
  read((await client.chat.completions.create(chat)).choices[0].message.content);

  const line = { custom_id: "item-1", method: "POST", url: "/v1/responses", body: asked };
  const create = async () => {
    const file = await toFile(Buffer.from(JSON.stringify(line)), "a.jsonl");
    const { id } = await client.files.create({ file, purpose: "batch" });
    const metadata = { submission_id: "a" };
    return client.batches.create({ input_file_id: id, endpoint: line.url, completion_window: "24h", metadata });
  };
  const batch = await create();
  assert.equal((await client.batches.retrieve(batch.id)).status, "validating");
  assert.equal((await client.batches.cancel((await create()).id)).status, "cancelling");
  await advance();
  const ended = await client.batches.retrieve(batch.id);
  assert.equal(ended.status, "completed");
  assert.equal((await all(client.batches.list({ limit: 100 }))).length, 2);
  const output = (await all(client.files.list({ purpose: "batch_output", order: "desc", limit: 100 })))[0];
  const content = await (await client.files.content(ended.output_file_id)).text();
  assert.equal((await client.files.retrieve(output.id)).bytes, Buffer.byteLength(content));
  assert.equal(JSON.parse(content).custom_id, "item-1");
  assert.equal((await client.files.delete(output.id)).deleted, true);
}

async function anthropic() {
  const { Anthropic } = await import("@anthropic-ai/sdk");
  const client = new Anthropic({ apiKey: KEY, baseURL: `${url}/anthropic`, maxRetries: 0 });
  const asked = {
    model, max_tokens: tokens, system: instructions, messages: [{ role: "user", content: text }],
    output_config: { format: { type: "json_schema", schema } },
  };
  read((await client.messages.create(asked)).content[0].text);

  const batches = client.messages.batches;
  const create = () => batches.create({ requests: [{ custom_id: "item-1", params: asked }] });
  const batch = await create();
  assert.equal((await batches.retrieve(batch.id)).processing_status, "in_progress");
  assert.equal((await batches.cancel((await create()).id)).processing_status, "canceling");
  await advance();
  assert.equal((await batches.retrieve(batch.id)).processing_status, "ended");
  assert.equal((await all(batches.list({ limit: 100 }))).length, 2);
  const [line] = await all(batches.results(batch.id));
  assert.deepEqual([line.custom_id, line.result.type], ["item-1", "succeeded"]);
  assert.equal((await batches.delete(batch.id)).type, "message_batch_deleted");
}

async function gemini() {
  const { GoogleGenAI } = await import("@google/genai");
  const client = new GoogleGenAI({ apiKey: KEY, httpOptions: { baseUrl: `${url}/gemini` } });
  const config = {
    systemInstruction: instructions, maxOutputTokens: tokens, responseMimeType: "application/json",
    responseJsonSchema: schema,
  };
  const contents = [{ role: "user", parts: [{ text }] }];
  read((await client.models.generateContent({ model, contents, config })).text);

  const line = { key: "item-1", request: { contents } };
  const create = async () => {
    const file = new Blob([JSON.stringify(line)]);
    const { name } = await client.files.upload({ file, config: { mimeType: "application/jsonl", displayName: "a" } });
    return client.batches.create({ model, src: name, config: { displayName: "a" } });
  };
  const batch = await create();
  assert.equal((await client.batches.get({ name: batch.name })).state, "JOB_STATE_PENDING");
  await client.batches.cancel({ name: (await create()).name });
  await advance();
  const ended = await client.batches.get({ name: batch.name });
  assert.equal(ended.state, "JOB_STATE_SUCCEEDED");
  assert.equal((await all(client.batches.list({ config: { pageSize: 100 } }))).length, 2);
  const files = await all(client.files.list({ config: { pageSize: 100 } }));
  const output = files.find((file) => file.name === ended.dest.fileName);
  const folder = mkdtempSync(join(tmpdir(), "gemini-"));
  await client.files.download({ file: output.name, downloadPath: join(folder, "a") });
  const content = readFileSync(join(folder, "a"), "utf8");
  rmSync(folder, { recursive: true });
  assert.equal(Number((await client.files.get({ name: output.name })).sizeBytes), Buffer.byteLength(content));
  assert.equal(JSON.parse(content).key, "item-1");
  await client.files.delete({ name: output.name });
}

for (const conversation of [openai, anthropic, gemini]) await conversation();
