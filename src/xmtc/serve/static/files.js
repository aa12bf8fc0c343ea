// Text files that are opened or dropped.

const LARGEST = 2_000_000; // bytes

/** The text of a file; an error that says what is wrong with it. */
export async function textOf(file) {
  if (file.size > LARGEST) throw new Error(`${file.name} is larger than ${LARGEST / 1e6} MB.`);
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(await file.arrayBuffer());
    if (!text.includes("\0")) return text;
  } catch {
    // said below
  }
  throw new Error(`${file.name} is no text in UTF-8; save it as plain text first.`);
}

/** Let files and texts be dropped anywhere on the page. */
export function whenDropped(page, take) {
  const has = (event) => event.dataTransfer?.types.includes("Files");
  page.addEventListener("dragover", (event) => {
    if (!has(event)) return;
    event.preventDefault();
    page.classList.add("dropping");
  });
  for (const end of ["dragleave", "drop"]) page.addEventListener(end, () => page.classList.remove("dropping"));
  page.addEventListener("drop", (event) => {
    if (!has(event)) return;
    event.preventDefault();
    take(event.dataTransfer.files[0]);
  });
}
