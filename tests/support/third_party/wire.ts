// What may stand on the wire, in the vendors' own words: the types of their published SDKs, by operation.
// An operation that is missing here is refused like a member that is.

import type { Anthropic } from "@anthropic-ai/sdk";
import type * as Gemini from "@google/genai";
import type { OpenAI } from "openai";

// Services send null for what their types call optional, and an enumeration travels as its words.
type Wire<T> = T extends string
  ? `${T}`
  : T extends number | boolean | null | undefined
    ? T
    : T extends (infer Item)[]
      ? Wire<Item>[]
      : T extends object
        ? { [Name in keyof T]: undefined extends T[Name] ? Wire<T[Name]> | null : Wire<T[Name]> }
        : T;

type Nothing = Record<string, never>;
type Untyped = object; // Google types what its SDKs make of these, not what travels: see sdks.mjs
type Ends = { first_id: string | null; last_id: string | null };
type OpenAIList<T> = { object: "list"; data: Wire<T>[]; has_more: boolean } & Ends;
type AnthropicList<T> = { data: Wire<T>[]; has_more: boolean } & Ends;
// The SDK adds output_text; the service repeats store, which its types do not tell.
type Response = Wire<Omit<OpenAI.Responses.Response, "output_text">> & { store: boolean };
type Completion = Wire<OpenAI.Chat.ChatCompletion>;
type Generated = Wire<Partial<Gemini.GenerateContentResponse>>; // its getters, too
type Asked = {
  contents: Gemini.Content[];
  systemInstruction?: Gemini.Content;
  generationConfig?: Gemini.GenerationConfig;
};
type ErrorInfo = { "@type": string; reason: string; domain: string };
type Line<Body> = { custom_id: string; method: "POST"; url: OpenAI.BatchCreateParams["endpoint"]; body: Body };
type Result<Body> = {
  id: string;
  custom_id: string;
  response: { status_code: number; request_id: string; body: Body } | null;
  error: { code: string; message: string } | null;
};

// Bodies; of a GET, its query.
export interface Requests {
  "openai POST /responses": OpenAI.Responses.ResponseCreateParamsNonStreaming;
  "openai POST /chat/completions": OpenAI.Chat.ChatCompletionCreateParamsNonStreaming;
  "openai POST /batches": OpenAI.BatchCreateParams;
  "openai GET /batches": OpenAI.BatchListParams;
  "openai GET /files": OpenAI.FileListParams;
  "openai line /responses": Line<OpenAI.Responses.ResponseCreateParamsNonStreaming>;
  "openai line /chat/completions": Line<OpenAI.Chat.ChatCompletionCreateParamsNonStreaming>;
  "anthropic POST /messages": Anthropic.MessageCreateParamsNonStreaming;
  "anthropic POST /messages/batches": Anthropic.Messages.BatchCreateParams;
  "anthropic GET /messages/batches": Anthropic.Messages.BatchListParams;
  "anthropic line": Anthropic.Messages.BatchCreateParams.Request;
  "gemini POST /models/*:generateContent": Asked;
  "gemini POST /models/*:batchGenerateContent": Untyped;
  "gemini POST /upload/files": Untyped;
  "gemini POST /batches/*:cancel": Nothing;
  "gemini DELETE /files/*": Nothing;
  "gemini GET /batches": { pageSize: number };
  "gemini GET /files": { pageSize: number };
  "gemini GET /files/*:download": { alt: "media" };
  "gemini line": { key: string; request: Asked };
}

// Bodies with status 200; lines of result files one by one.
export interface Answers {
  "openai POST /responses": Response;
  "openai POST /chat/completions": Completion;
  "openai POST /files": Wire<OpenAI.FileObject>;
  "openai GET /files": OpenAIList<OpenAI.FileObject>;
  "openai GET /files/*": Wire<OpenAI.FileObject>;
  "openai DELETE /files/*": Wire<OpenAI.FileDeleted>;
  "openai POST /batches": Wire<OpenAI.Batch>;
  "openai GET /batches": OpenAIList<OpenAI.Batch>;
  "openai GET /batches/*": Wire<OpenAI.Batch>;
  "openai POST /batches/*/cancel": Wire<OpenAI.Batch>;
  "openai line /responses": Result<Response>;
  "openai line /chat/completions": Result<Completion>;
  "openai line unanswered": Result<{ error: OpenAI.ErrorObject } | Nothing>; // refused, or with status 0
  "anthropic POST /messages": Wire<Anthropic.Message>;
  "anthropic POST /messages/batches": Wire<Anthropic.Messages.MessageBatch>;
  "anthropic GET /messages/batches": AnthropicList<Anthropic.Messages.MessageBatch>;
  "anthropic GET /messages/batches/*": Wire<Anthropic.Messages.MessageBatch>;
  "anthropic POST /messages/batches/*/cancel": Wire<Anthropic.Messages.MessageBatch>;
  "anthropic DELETE /messages/batches/*": Wire<Anthropic.Messages.DeletedMessageBatch>;
  "anthropic line": Wire<Anthropic.Messages.MessageBatchIndividualResponse>;
  "gemini POST /models/*:generateContent": Generated;
  "gemini POST /models/*:batchGenerateContent": Untyped;
  "gemini GET /batches": Untyped;
  "gemini GET /batches/*": Untyped;
  "gemini POST /batches/*:cancel": Nothing;
  "gemini POST /upload/files/*": { file: Wire<Gemini.File> };
  "gemini GET /files": { files: Wire<Gemini.File>[]; nextPageToken?: string };
  "gemini GET /files/*": Wire<Gemini.File>;
  "gemini DELETE /files/*": Nothing;
  "gemini line": { key: string; response: Generated } | { key: string; error: { code: number; message: string } };
}

// Bodies with any other status.
export interface Errors {
  openai: { error: OpenAI.ErrorObject };
  anthropic: Wire<Anthropic.ErrorResponse>;
  gemini: { error: { code: number; message: string; status: string; details?: ErrorInfo[] } };
}
