"""The page of `xmtc serve` in a real browser: tag, explain, threshold, compare, correct, refusals, accessibility.

    python tools/check_page.py --models FOLDER [FOLDER] [--axe axe.min.js] [--shots FOLDER]

Starts `xmtc serve` with the model folders on a free port (or takes a running server with `--url`), drives the page with
Debian's chromium and playwright, counts requests that leave the server and errors on the console, has axe-core look at
each state, wide and narrow, light and dark, and takes a picture of each. Playwright belongs into a venv of its own:

    python3 -m venv page-venv && page-venv/bin/pip install playwright    # apt-get install chromium
    npm install axe-core                                                  # node_modules/axe-core/axe.min.js
    page-venv/bin/python tools/check_page.py --xmtc .venv/bin/xmtc --models tagger other --axe axe.min.js --shots shots
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

TEXT = (
    "A fast mail server with spam filtering and a web interface.\n\nIt speaks SMTP and IMAP, keeps mailboxes in a "
    "database, and is set up by a graphical program. Mail that looks like spam is put into a folder of its own."
)
HOSTILE = (
    '<img src=x onerror="document.title=\'broken\'"><script>document.title="broken"</script> mail \U0001f4e7 server'
)
DROP = """() => {
  const dataTransfer = new DataTransfer();
  dataTransfer.items.add(new File(["a dropped mail server"], "mail.txt"));
  document.body.dispatchEvent(new DragEvent("drop", { dataTransfer, bubbles: true, cancelable: true }));
}"""
ANSWERED = r"/ tags?\.$|No |UTF-8/.test(document.getElementById('status').textContent)"
SHAPES = {"wide": (1280, 900), "narrow": (390, 844)}
TOKEN = "page-check-token"


def main() -> int:
    """Check everything; 1 if something is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=[], help="model folders to serve")
    parser.add_argument("--url", help="a running server with the token above, in place of --models")
    parser.add_argument("--xmtc", default=str(Path(sys.executable).with_name("xmtc")), help="the command")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    parser.add_argument("--axe", type=Path, help="axe.min.js; without it accessibility is not checked")
    parser.add_argument("--shots", type=Path, help="folder for pictures")
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, serving(options, Path(folder)) as url, sync_playwright() as play:
        browser = play.chromium.launch(executable_path=options.chromium, args=["--no-sandbox"])
        check = PageCheck(browser, url, options.axe, options.shots)
        for scheme in ("light", "dark"):
            for shape, size in SHAPES.items():
                check.all_of(scheme, shape, size)
        check.keyboard()
        for name, size in (("medium", (1000, 800)), ("tiny", (320, 640))):  # 1280 pixels at a zoom of 400 %
            check.all_of("light", name, size)
        browser.close()
    for line in check.wrong:
        print(f"wrong: {line}")
    print(f"{check.looked} checks, {len(check.wrong)} wrong")
    return int(bool(check.wrong))


@contextmanager
def serving(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The address of a server, which asks for a token and keeps feedback."""
    if options.url:
        yield options.url
        return
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    token = folder / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    more = [
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
        "--token-file",
        str(token),
        "--feedback",
        str(folder / "f.jsonl"),
    ]
    server = subprocess.Popen([options.xmtc, "serve", *options.models, *more])
    url = f"http://127.0.0.1:{port}/"
    try:
        for _ in range(600):
            try:
                urllib.request.urlopen(f"{url}v2/health/ready", timeout=1).close()
                break
            except (urllib.error.URLError, OSError):
                if server.poll() is not None:
                    sys.exit(f"xmtc serve ended with {server.returncode}")
                time.sleep(0.2)
        yield url
        if not (folder / "f.jsonl").read_text("utf-8").strip():
            sys.exit("no feedback was kept")
    finally:
        server.terminate()
        server.wait(60)


def until(page: Any, expression: str) -> None:
    """Wait for something to be true; Playwright's own way to wait is evaluated in the page, whose policy forbids it."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise TimeoutError(expression)


class PageCheck:
    """What was looked at and what was wrong."""

    def __init__(self, browser: Any, url: str, axe: Path | None, shots: Path | None) -> None:
        self.browser, self.url, self.shots = browser, url, shots
        self.axe = axe.read_text("utf-8") if axe else ""
        self.wrong: list[str] = []
        self.looked = 0
        self.where = ""

    def expect(self, right: bool, what: str) -> None:
        """Count a check."""
        self.looked += 1
        if not right:
            self.wrong.append(f"{self.where}: {what}")

    def page(self, scheme: str, size: tuple[int, int]) -> tuple[Any, Any]:
        """A fresh page, watched for errors and for requests that leave the server."""
        context = self.browser.new_context(
            color_scheme=scheme,
            viewport={"width": size[0], "height": size[1]},
            reduced_motion="reduce",
            bypass_csp=False,
        )
        page = context.new_page()
        page.set_default_timeout(20_000)
        page.on("pageerror", lambda error: self.expect(False, f"error in the page: {error}"))
        page.on("console", lambda line: self.console(line))
        page.on("request", lambda request: self.expect(request.url.startswith(self.url), f"asks {request.url}"))
        page.goto(self.url)
        return context, page

    def console(self, line: Any) -> None:
        """A refusal that a check asks for is logged by the browser; everything else is an error of ours."""
        if line.type == "error" and "the server responded with a status of 4" not in line.text:
            self.expect(False, f"console: {line.text}")

    def state(self, page: Any, name: str) -> None:
        """What holds in each state: fits the screen, nothing serious for axe-core; and a picture."""
        fits = page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
        self.expect(fits, f"{name}: wider than the screen")
        if self.axe:
            page.evaluate(self.axe)  # in the page's own world, past its policy
            found = page.evaluate("axe.run().then((result) => result.violations)")
            for each in found:
                places = "; ".join(node["html"][:100] for node in each["nodes"][:3])
                self.expect(each["impact"] not in ("serious", "critical"), f"{name}: axe {each['id']}: {places}")
                if each["impact"] not in ("serious", "critical"):
                    print(f"{self.where}: {name}: axe, {each['impact']}: {each['id']}: {places}")
            self.looked += 1
        if self.shots:
            page.mouse.move(0, 0)  # else something may look as if it were pointed at
            self.shots.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=str(self.shots / f"{self.where.replace(' ', '-')}-{name}.png"), full_page=True)

    def all_of(self, scheme: str, shape: str, size: tuple[int, int]) -> None:
        """Everything that a person does, in one look."""
        self.where = f"{scheme} {shape}"
        context, page = self.page(scheme, size)
        self.refused(page)
        self.tagged(page)
        self.threshold(page)
        self.explained(page)
        self.corrected(page)
        self.compared(page)
        self.hostile(page)
        context.close()

    def refused(self, page: Any) -> None:
        """Without a token: the server's sentence, and the field for it."""
        page.wait_for_selector("#status.failed")
        self.expect("token" in page.inner_text("#status").lower(), "a refusal says that a token is needed")
        self.expect(page.evaluate("document.activeElement.id") == "token", "the field for the token has the focus")
        self.state(page, "1-refused")
        page.fill("#token", TOKEN)
        page.keyboard.press("Tab")
        until(page, "document.querySelectorAll('#model option').length > 0")
        page.click("#access summary")

    def tagged(self, page: Any) -> None:
        """A text gets tags with bars and names."""
        page.fill("#text", TEXT)
        page.click("button.main")
        page.wait_for_selector(".tag")
        self.expect(page.locator("article").count() == 1, "one model, one card")
        widths = page.eval_on_selector_all(
            ".tag .bar span", "all => all.map((one) => one.getBoundingClientRect().width)"
        )
        self.expect(len(widths) > 0 and widths[0] > 0, "bars have a length")
        self.expect(widths == sorted(widths, reverse=True), "bars are sorted")
        self.state(page, "2-tagged")

    def threshold(self, page: Any) -> None:
        """The slider takes tags away, and says what precision to expect."""
        slider = page.locator("article input[type=range]")
        page.focus("article input[type=range]")
        page.keyboard.press("Home")
        everything = page.locator(".tag").count()
        self.expect("expected precision" in page.inner_text("output"), "the precision is beside the slider")
        first = page.inner_text("output")
        self.measured(page)
        for _ in range(60):
            page.keyboard.press("ArrowRight")
        self.expect(page.locator(".tag").count() < everything, "a higher threshold leaves fewer tags")
        self.expect(page.inner_text("output") != first, "another precision is expected")
        self.expect(bool(slider.get_attribute("aria-valuetext")), "a screen reader hears the precision")
        page.keyboard.press("End")
        self.expect(
            "below the threshold" in page.inner_text("article") or "No tag reaches" in page.inner_text("article"),
            "what is hidden is counted",
        )
        page.click("button.main")  # as it was
        until(page, ANSWERED)

    def measured(self, page: Any) -> None:
        """What the page expects of a threshold is what the model has measured, between two points in proportion."""
        ask = f"fetch('v1/models', {{headers: {{Authorization: 'Bearer {TOKEN}'}}}}).then((answer) => answer.json())"
        curve = page.evaluate(ask)["models"][0]["curve"]
        points = sorted((point["threshold"], point["precision"]) for point in curve)
        for _ in range(3):
            for _ in range(30):
                page.keyboard.press("ArrowRight")
            at = float(page.input_value("article input[type=range]"))
            low = max((point for point in points if point[0] < at), default=points[0])
            high = min((point for point in points if point[0] >= at), default=points[-1])
            part = (at - low[0]) / (high[0] - low[0]) if low[0] < at < high[0] else 0.5
            expected = low[1] + part * (high[1] - low[1])
            shown = int(page.inner_text("output").partition("precision ")[2].split()[0])
            self.expect(abs(100 * expected - shown) < 1, f"precision at {at}: {shown}, measured {100 * expected:.1f}")
        page.keyboard.press("Home")

    def explained(self, page: Any) -> None:
        """A tag that is chosen shades the words that spoke for it."""
        page.click(".tag >> nth=1")
        page.wait_for_selector("#why mark")
        self.expect(page.get_attribute(".tag >> nth=1", "aria-pressed") == "true", "the tag is pressed")
        marks = page.eval_on_selector_all("#why .shaded mark", "all => all.map((one) => one.textContent)")
        self.expect(all(mark in TEXT for mark in marks), f"marks are words of the text: {marks}")
        self.expect(page.eval_on_selector("#why .shaded", "one => one.textContent") == TEXT, "the text is whole")
        self.expect(page.locator("#why .weights tbody tr").count() > 0, "words have bars")
        self.state(page, "3-explained")

    def corrected(self, page: Any) -> None:
        """A tag is taken out, another is searched for and added, and the server keeps it."""
        page.click("details.correct summary")
        page.wait_for_selector(".correct .labels li")
        before = page.locator(".correct .labels li").count()
        page.click(".correct .labels button >> nth=0")
        self.expect(page.locator(".correct .labels li").count() == before - 1, "a tag is removed")
        page.fill("[role=combobox]", "game")
        page.wait_for_selector("[role=option][aria-selected=true]")
        self.state(page, "4-searched")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        self.expect(page.locator(".correct .labels li").count() == before, "a tag is added")
        self.state(page, "5-corrected")
        page.click("text=Send feedback")
        until(page, "document.getElementById('status').textContent.startsWith('Thank you')")
        self.looked += 1

    def compared(self, page: Any) -> None:
        """Two models stand side by side."""
        if page.locator("#model option").count() < 2:
            return
        page.select_option("#other", index=2)
        until(page, "document.querySelectorAll('article').length === 2")
        self.state(page, "6-compared")
        page.select_option("#other", index=0)
        until(page, "document.querySelectorAll('article').length === 1")

    def hostile(self, page: Any) -> None:
        """Markup in a text stays text, and characters outside the first plane do not shift the marks."""
        page.fill("#text", HOSTILE)
        page.click("button.main")
        until(page, ANSWERED)
        if page.locator("button.tag").count():
            page.click("button.tag >> nth=0")
            page.wait_for_selector("#why:not([hidden])")
            marks = page.eval_on_selector_all("#why .shaded mark", "all => all.map((one) => one.textContent)")
            self.expect(all(mark.isalnum() for mark in marks), f"marks are words: {marks}")
        self.expect(page.locator("main img, main script").count() == 0, "markup became elements")
        self.expect("xmtc" in page.title(), "a script in a text was run")

    def keyboard(self) -> None:
        """Without a mouse: every control can be reached, Ctrl + Enter tags, Enter explains, a file can be dropped."""
        self.where = "keyboard"
        context, page = self.page("light", SHAPES["wide"])
        page.wait_for_selector("#status.failed")
        page.keyboard.type(TOKEN)
        page.keyboard.press("Tab")
        until(page, "document.querySelectorAll('#model option').length > 0")
        page.focus("#text")
        page.keyboard.type("a mail server")
        page.keyboard.press("Control+Enter")
        page.wait_for_selector(".tag")
        seen = []
        page.focus("#clear")
        for _ in range(12):
            page.keyboard.press("Tab")
            seen.append(page.evaluate("document.activeElement.className || document.activeElement.type || ''"))
            if seen[-1] == "tag":
                break
        self.expect("range" in seen and "tag" in seen, f"Tab comes to the slider and the tags: {seen}")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why:not([hidden])")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why", state="hidden")
        for name, content, words in (
            ("a.txt", b"a web browser", "a web browser"),
            ("a.bin", b"\xff\xfe\x00", "a web browser"),
        ):
            with page.expect_file_chooser() as chooser:
                page.click("#open")
            chooser.value.set_files({"name": name, "mimeType": "text/plain", "buffer": content})
            until(page, ANSWERED)
            page.wait_for_timeout(300)
            self.expect(page.input_value("#text") == words, f"{name}: the text is {page.input_value('#text')}")
        self.expect("UTF-8" in page.inner_text("#status.failed"), "a file that is no text is refused")
        page.evaluate(DROP)
        until(page, "document.getElementById('text').value === 'a dropped mail server'")
        page.wait_for_selector("#status:not(.failed)")
        page.click("#clear")
        self.expect(page.locator("article").count() == 0, "everything is cleared")
        context.close()


if __name__ == "__main__":
    sys.exit(main())
