// Requests to this server; a refusal becomes a Problem with the sentence that the server gives.

let token = "";

export function setToken(value) {
  token = value.trim();
}

export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

/** The answer of a path, relative to where this page lies, so that a proxy may put both below a folder of its own. */
export async function call(path, body, signal) {
  const headers = { Accept: "application/json" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    const method = body === undefined ? "GET" : "POST";
    response = await fetch(path, { method, headers, signal, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Problem(0, "The server does not answer.");
  }
  const answer = await response.json().catch(() => null);
  if (response.ok) return answer;
  throw new Problem(response.status, explained(response, answer));
}

function explained(response, answer) {
  const detail = typeof answer?.detail === "string" ? answer.detail : "";
  const wait = response.headers.get("Retry-After");
  const again = wait && /^\d+$/.test(wait) ? ` Try again in ${wait} s.` : "";
  return (detail || answer?.title || `The server answers with the status ${response.status}.`) + again;
}

export const models = async () => (await call("v1/models")).models;

const of = (model, what) => `v1/models/${encodeURIComponent(model)}/${what}`;

export async function predict(model, text, k, threshold, signal) {
  const answer = await call(of(model, "predict"), { documents: [text], k, threshold }, signal);
  return { ...answer, labels: answer.results[0].labels };
}

export const explain = (model, text, label, signal) => call(of(model, "explain"), { text, label }, signal);

export async function findLabels(model, search, limit, signal) {
  const query = new URLSearchParams({ search, limit });
  return (await call(`${of(model, "labels")}?${query}`, undefined, signal)).labels;
}

export const sendFeedback = (model, text, labels, predicted) =>
  call(of(model, "feedback"), { text, labels, predicted });
