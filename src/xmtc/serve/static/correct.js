// Tags put right by a person: some taken out, others added by a search over the names, and the result sent as feedback.

import * as api from "./api.js";
import { element } from "./dom.js";

const FOUND = 12; // tags that a search shows
const PAUSE = 150; // milliseconds after the last key before a search

let made = 0; // finders on this page, for ids

/** The panel below a list of tags; `shown()` gives the tags of the moment, `say` tells how it went. */
export function correction(model, text, shown, say) {
  let chosen = [];
  let predicted = [];
  const list = element("ul", { class: "labels", "aria-label": "Tags of this text" });
  const empty = element("p", { class: "soft" }, "No tag.");
  const send = element("button", { type: "button", click: () => deliver() }, "Send feedback");
  const finder = labelFinder(model, () => chosen, (label) => {
    chosen = [...chosen, label];
    render();
    say(`${label.name} is added.`);
  });
  const panel = element("details", { class: "correct", toggle: () => {
    if (panel.open && !chosen.length) begin();
  } }, element("summary", {}, "Correct these tags"), empty, list, finder.element, send);

  function begin() {
    chosen = [...shown()];
    predicted = chosen.map((label) => label.id);
    render();
  }

  function render() {
    empty.hidden = chosen.length > 0;
    list.hidden = !chosen.length;
    list.replaceChildren(...chosen.map((label) => element("li", {}, element("bdi", {}, label.name),
      element("button", { type: "button", "aria-label": `Remove ${label.name}`, click: () => remove(label) }, "×"))));
  }

  function remove(label) {
    const at = chosen.indexOf(label);
    chosen = chosen.filter((other) => other !== label);
    render();
    (list.querySelectorAll("button")[Math.min(at, chosen.length - 1)] ?? finder.input).focus();
    say(`${label.name} is removed.`);
  }

  async function deliver() {
    send.disabled = true;
    try {
      await api.sendFeedback(model.id, text, chosen.map((label) => label.id), predicted);
      say("Thank you: the server keeps your tags.");
      panel.open = false;
      chosen = [];
    } catch (error) {
      say(error);
    } finally {
      send.disabled = false;
    }
  }
  return panel;
}

/** An input with a list below it, of the labels whose names have what is typed; a combobox as ARIA describes it. */
function labelFinder(model, taken, choose) {
  const id = `finder-${++made}`;
  const options = element("ul", { id: `${id}-list`, role: "listbox", "aria-label": "Tags found", hidden: true });
  const input = element("input", {
    id, type: "text", role: "combobox", autocomplete: "off", "aria-autocomplete": "list", "aria-expanded": "false",
    "aria-controls": options.id, input: () => search(), keydown: (event) => key(event), blur: () => close(),
  });
  let labels = [];
  let active = -1;
  let waiting = 0;
  let running = null;

  function search() {
    clearTimeout(waiting);
    running?.abort();
    if (!input.value.trim()) return close();
    waiting = setTimeout(async () => {
      running = new AbortController();
      try {
        const has = new Set(taken().map((label) => label.id));
        const found = await api.findLabels(model.id, input.value.trim(), FOUND + has.size, running.signal);
        open(found.filter((label) => !has.has(label.id)).slice(0, FOUND), "No tag has such a name.");
      } catch (error) {
        if (error.name !== "AbortError") open([], error.message);
      }
    }, PAUSE);
  }

  function open(found, nothing) {
    labels = found;
    options.replaceChildren(...labels.map((label, at) => element("li", {
      id: `${id}-${at}`, role: "option", "aria-selected": "false",
      mousedown: (event) => { event.preventDefault(); take(at); },
    }, label.name, above(label) ? element("small", {}, above(label)) : null)));
    if (!labels.length) options.append(element("li", { role: "option", "aria-disabled": "true", "aria-selected": "false" }, nothing));
    options.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark(labels.length ? 0 : -1);
  }

  function close() {
    clearTimeout(waiting);
    running?.abort();
    options.hidden = true;
    input.setAttribute("aria-expanded", "false");
    mark(-1);
  }

  function mark(at) {
    active = at;
    [...options.children].forEach((option, other) => option.setAttribute("aria-selected", String(other === at)));
    if (at < 0) return input.removeAttribute("aria-activedescendant");
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
    return options.children[at].scrollIntoView({ block: "nearest" });
  }

  function take(at) {
    const label = labels[at];
    input.value = "";
    close();
    choose(label);
  }

  function key(event) {
    const moves = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in moves && labels.length && !options.hidden) {
      event.preventDefault();
      mark((active + moves[event.key] + labels.length) % labels.length);
    } else if (event.key === "Enter") {
      event.preventDefault();
      if (active >= 0) take(active);
    } else if (event.key === "Escape" && !options.hidden) {
      event.preventDefault();
      close();
    }
  }
  return { input, element: element("div", { class: "finder" }, element("label", { for: id }, "Add a tag"), input, options) };
}

/** The names above a label in its hierarchy, as one line. */
export function above(label) {
  const path = label.path ?? [];
  return (path.at(-1) === label.name ? path.slice(0, -1) : path).join(" › ");
}
