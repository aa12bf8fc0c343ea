// Why a tag was given: the text shaded by the weight of its words, the strongest words as bars, and the evidence.

import { bar, counted, element } from "./dom.js";

const LISTED = 10;
const STRONGEST = 50; // percent of the colour behind the strongest word

/** The text in pieces; places count characters as Python does, not the halves of which JavaScript's strings are made. */
function shaded(text, places) {
  const characters = Array.from(text);
  const strongest = Math.max(...places.map((place) => Math.abs(place.weight)), Number.MIN_VALUE);
  const pieces = [];
  let done = 0;
  for (const { start, end, weight } of places) {
    if (start > done) pieces.push(characters.slice(done, start).join(""));
    const mark = element("mark", { class: weight < 0 ? "against" : "for", title: weight.toPrecision(3) });
    mark.style.setProperty("--shade", `${((STRONGEST * Math.abs(weight)) / strongest).toFixed(1)}%`);
    mark.append(characters.slice(start, end).join(""));
    pieces.push(mark);
    done = end;
  }
  pieces.push(characters.slice(done).join(""));
  return element("p", { class: "shaded", dir: "auto", tabindex: "0" }, ...pieces);
}

function bars(words) {
  const strongest = Math.max(...words.map(({ weight }) => Math.abs(weight)));
  const row = ({ word, weight }) =>
    element("tr", {}, element("th", { scope: "row" }, element("bdi", {}, word)),
      element("td", { class: "bar" }, bar(Math.abs(weight) / strongest, weight < 0 ? "against" : "for").firstChild),
      element("td", {}, weight.toFixed(3)));
  const head = element("tr", {}, ...["word", "bar", "weight"].map((name) => element("th", { scope: "col" }, name)));
  const table = element("table", { class: "weights" }, element("thead", { class: "hidden" }, head),
    element("tbody", {}, ...words.slice(0, LISTED).map(row)));
  const rest = words.slice(LISTED);
  if (rest.length) {
    const sum = rest.reduce((total, { weight }) => total + weight, 0);
    table.tBodies[0].append(element("tr", { class: "soft" },
      element("th", { scope: "row" }, `${counted(rest.length, "further word")}`), element("td"), element("td", {}, sum.toFixed(3))));
  }
  return table;
}

function legend(places) {
  const key = (side, words) => {
    const mark = element("mark", { class: side }, words);
    mark.style.setProperty("--shade", "40%");
    return mark;
  };
  const against = places.some((place) => place.weight < 0) ? [" or ", key("against", "against it")] : [];
  return element("p", { class: "soft" }, "The stronger the shade, the more a word counts ", key("for", "for the tag"), ...against, ".");
}

/** Fill the section with an explanation. */
export function showWhy(section, why, model) {
  const spoken = why.places.length
    ? [legend(why.places), shaded(why.text, why.places)]
    : [element("p", { class: "soft" }, "No word of this text counts for or against this tag.")];
  section.replaceChildren(
    element("h2", { id: "why-title", dir: "auto" }, `Why ${why.name}?`),
    element("p", { class: "soft about" }, `${model.title}, score ${why.score.toFixed(3)}`),
    ...spoken,
  );
  if (why.words.length) section.append(bars(why.words));
  if (why.evidence.length) {
    section.append(element("ul", { class: "evidence" },
      ...why.evidence.map((line) => element("li", {}, element("bdi", {}, line)))));
  }
  section.hidden = false;
}
