// The page: a text goes to one or two models, and their tags, and why they were given, come back.

import * as api from "./api.js";
import { card } from "./card.js";
import { counted, element } from "./dom.js";
import { textOf, whenDropped } from "./files.js";
import { showWhy } from "./why.js";

const at = (id) => document.getElementById(id);
const [form, text, model, other, many, why, tags, status] =
  ["ask", "text", "model", "other", "many", "why", "tags", "status"].map(at);
const main = document.querySelector("main");
const waiting = tags.firstElementChild; // stands where the tags will be
let models = [];
let cards = [];
let tagging = null; // what can be stopped: the request under way
let explaining = null;

/** Tell what happened, also to a screen reader; an error is marked as one. */
function say(message) {
  if (message?.name === "AbortError") return;
  const failed = message instanceof Error;
  status.classList.toggle("failed", failed);
  status.textContent = failed ? message.message : message;
  if (message instanceof api.Problem && message.status === 401) {
    status.textContent = at("token").value ? "The server does not accept this token." : "This server asks for a token.";
    at("access").open = true;
    at("token").focus();
  }
}

async function listModels() {
  try {
    models = await api.models();
  } catch (error) {
    say(error);
    return false;
  }
  const options = () => models.map(({ id, title }) => element("option", { value: id }, title));
  const [first, second] = [model.value, other.value];
  model.replaceChildren(...options());
  other.replaceChildren(other.options[0], ...options());
  if (models.some(({ id }) => id === first)) model.value = first;
  other.value = models.some(({ id }) => id === second) ? second : "";
  at("comparing").hidden = models.length < 2;
  if (!models.length) say(new Error("This server has no model."));
  return models.length > 0;
}

/** What a model answers: without a threshold, and with the tuned ones if it has them. */
async function answers(asked, words, k, signal) {
  const [free, tuned] = await Promise.all([
    api.predict(asked.id, words, k, null, signal),
    asked.tuned ? api.predict(asked.id, words, k, "tuned", signal) : null,
  ]);
  return { free, tuned };
}

async function tag() {
  tagging?.abort();
  tagging = new AbortController();
  const { signal } = tagging;
  if (!models.length && !(await listModels())) return;
  const words = text.value;
  const k = Number(many.value);
  const find = (id) => models.find((each) => each.id === id);
  let chosen = [...new Set([model.value, other.value])].filter(Boolean).map(find);
  tags.setAttribute("aria-busy", "true");
  say("Tagging ...");
  try {
    const found = await Promise.all(chosen.map((asked) => answers(asked, words, k, signal)));
    if (found.some(({ free }, index) => free.version !== chosen[index].version) && (await listModels())) {
      chosen = chosen.map((old) => find(old.id) ?? old); // a new version has another curve
    }
    forget();
    cards = chosen.map((asked, index) => card(asked, words, { ...found[index], most: k }, {
      explain: (label, button) => explain(asked, words, label, index, button),
      changed: compare,
      say,
    }));
    main.classList.toggle("two", cards.length > 1);
    tags.replaceChildren(...cards.map((each) => each.element));
    cards.forEach((each) => each.update());
    say(cards.map((each, index) => `${chosen[index].title}: ${counted(each.shown().size, "tag")}`).join(", ") + ".");
  } catch (error) {
    say(error);
  } finally {
    if (!signal.aborted) tags.removeAttribute("aria-busy");
  }
}

/** Each of two models marks the tags that the other does not show. */
function compare() {
  if (cards.length < 2) return;
  cards[0].compare(cards[1].shown());
  cards[1].compare(cards[0].shown());
}

function forget() {
  explaining?.abort();
  why.hidden = true;
  cards.forEach((each) => each.press(null));
}

async function explain(asked, words, label, index, button) {
  if (button.getAttribute("aria-pressed") === "true") return forget();
  forget();
  cards[index].press(label.id);
  explaining = new AbortController();
  try {
    const found = await api.explain(asked.id, words, label.id, explaining.signal);
    showWhy(why, found, asked);
    say(`${counted(found.words.length, "word")} of the text counted for or against ${label.name}, shown below.`);
    const calm = matchMedia("(prefers-reduced-motion: reduce)").matches;
    why.scrollIntoView({ block: "nearest", behavior: calm ? "auto" : "smooth" });
  } catch (error) {
    cards[index]?.press(null);
    say(error);
  }
  return undefined;
}

async function take(file) {
  try {
    text.value = await textOf(file);
    await tag();
  } catch (error) {
    say(error);
  }
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  tag();
});
text.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
});
for (const choice of [model, other]) {
  choice.addEventListener("change", () => {
    if (cards.length && text.value.trim()) tag();
  });
}
at("open").addEventListener("click", () => at("file").click());
at("file").addEventListener("change", ({ target }) => {
  if (target.files.length) take(target.files[0]);
  target.value = "";
});
at("clear").addEventListener("click", () => {
  tagging?.abort();
  forget();
  cards = [];
  main.classList.remove("two");
  tags.replaceChildren(waiting);
  text.value = "";
  say("");
  text.focus();
});
at("token").addEventListener("change", ({ target }) => {
  api.setToken(target.value);
  say("");
  listModels();
});
whenDropped(document.body, take);
listModels();
