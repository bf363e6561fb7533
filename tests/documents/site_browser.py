"""python3 site_browser.py FOLDER [NAME...]: looks at the site in FOLDER with Chromium, offline.

Loads the pages of documents and rooms, and of those made of declarations each fifth (--every N: each
Nth), or those named, as a published site (--shots DIR: and takes their pictures), and
fails where a page logs an error, asks for something that is not there or not on this site, has a
link to nothing, also in the menus that its scripts make, or is wider than the window at 1280 or
400 pixels; and where the search does not find Dense. Without a browser it exits with 77. Chromium
speaks its DevTools protocol over a pipe, so that nothing need be installed but Chromium and Python.
"""

import argparse
import base64
import functools
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

WIDTHS = {1280: 900, 400: 800}
LOOK = """(() => {
  const overflow = [document.documentElement, document.getElementById('doc-content')]
      .filter(e => e && e.scrollWidth > e.clientWidth + 1)
      .map(e => (e.id || 'page') + ' ' + e.scrollWidth + ' > ' + e.clientWidth);
  const wide = overflow.length ? [...document.querySelectorAll('#doc-content *, #top *')]
      .filter(e => e.getBoundingClientRect().right > innerWidth + 1 && e.offsetParent)
      .map(e => e.tagName + '.' + e.className).slice(0, 3) : [];
  return {overflow, wide,
          pictures: [...document.images].filter(i => i.complete && !i.naturalWidth).map(i => i.src),
          links: [...new Set([...document.links].map(a => a.href))]};
})()"""


class Browser:
    """One tab of a headless Chromium."""

    def __init__(self, program, folder):
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()
        options = ["--headless=new", "--remote-debugging-pipe", f"--user-data-dir={folder}", "--disable-gpu",
                   "--no-first-run", "--disable-extensions", "--disable-background-networking",
                   "--disable-component-update", "--disable-dev-shm-usage", "--hide-scrollbars"]
        if os.geteuid() == 0:
            options.append("--no-sandbox")

        def place_pipes():  # Chromium reads from 3 and writes to 4
            read, write = os.dup(to_browser), os.dup(from_browser)
            os.dup2(read, 3)
            os.dup2(write, 4)

        self.process = subprocess.Popen([program, *options, "about:blank"], preexec_fn=place_pipes, close_fds=False,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_browser)
        os.close(from_browser)
        self.buffer = b""
        self.number = 0
        self.session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(domain + ".enable")

    def receive(self):
        while b"\0" not in self.buffer:
            chunk = os.read(self.read_end, 1 << 16)
            if not chunk:
                sys.exit("the browser has ended")
            self.buffer += chunk
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.number:
                if "error" in answer:
                    sys.exit(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, script):
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in result:
            sys.exit(f"{script[:60]}...: {result['exceptionDetails']}")
        return result["result"].get("value")

    def load(self, url):
        """The events until the page has loaded."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(e.get("method") == "Page.loadEventFired" for e in self.events):
            self.events.append(self.receive())

    def resize(self, width):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=WIDTHS[width], deviceScaleFactor=1,
                  mobile=False)

    def close(self):
        self.process.terminate()
        self.process.wait()


def complaints_of(events, site):
    for event in events:
        method, values = event.get("method"), event.get("params", {})
        if method == "Runtime.exceptionThrown":
            details = values["exceptionDetails"]
            yield "exception: " + details.get("exception", {}).get("description", details["text"])
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "assert"):
            yield "console: " + " ".join(str(a.get("value")) for a in values["args"])
        elif method == "Log.entryAdded" and values["entry"]["level"] == "error":
            yield "log: " + values["entry"]["text"] + " " + values["entry"].get("url", "")
        elif method == "Network.requestWillBeSent" and not values["request"]["url"].startswith((site, "data:")):
            yield "asks for " + values["request"]["url"]


@functools.cache
def anchors(file):
    return set(re.findall(r'\b(?:id|name)="([^"]+)"', file.read_text(errors="replace")))


def is_there(folder, path):
    path, _, anchor = path.partition("#")
    file = folder / urllib.parse.unquote(path)
    return file.is_file() and (not anchor or urllib.parse.unquote(anchor) in anchors(file))


class Quiet(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        if self.path == "/favicon.ico":  # which browsers ask for, and a site need not have
            self.send_response(204)
            self.end_headers()
        else:
            super().do_GET()

    def log_message(self, *_):
        pass


def search_finds(browser, word):
    for _ in range(100):  # scripts make the field
        if browser.evaluate("(f => f && (f.focus(), true))(document.getElementById('MSearchField'))"):
            break
        time.sleep(0.1)
    for letter in word:
        browser.call("Input.dispatchKeyEvent", type="keyDown", text=letter, key=letter)
        browser.call("Input.dispatchKeyEvent", type="keyUp", key=letter)
    for _ in range(100):
        found = browser.evaluate("""[document, ...[...document.querySelectorAll('iframe')].map(f => f.contentDocument)]
            .some(d => d && [...d.querySelectorAll('.SRResult')].some(
                r => r.style.display != 'none' && r.textContent.startsWith('%s')))""" % word)
        if found:
            return True
        time.sleep(0.1)
    return False


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--every", type=int, default=5)
    parser.add_argument("--shots", type=pathlib.Path)
    arguments = parser.parse_args()
    folder = arguments.folder
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if not program:
        print("SKIPPED: the site in a browser: there is no Chromium (Debian: apt-get install chromium)")
        sys.exit(77)

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    site = f"http://127.0.0.1:{server.server_port}/"
    failures = []
    links = set()
    every = sorted(p.name for p in folder.glob("*.html"))
    declared = [p for p in every if re.match("class|struct|concept|functions|globals|namespace", p) or "_8hpp" in p]
    pages = arguments.names or sorted(set(every) - set(declared)) + declared[::arguments.every]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        browser = Browser(program, profile)
        try:
            for page in pages:
                for width in WIDTHS:
                    browser.resize(width)
                    if width == 1280:
                        browser.load(site + page)
                    seen = browser.evaluate(LOOK)
                    for what in seen["overflow"]:
                        failures.append(f"{page}: at {width} pixels: {what}: {' '.join(seen['wide'])}")
                    if arguments.shots:
                        time.sleep(0.5)
                        picture = browser.call("Page.captureScreenshot")["data"]
                        (arguments.shots / f"{page}.{width}.png").write_bytes(base64.b64decode(picture))
                failures += [f"{page}: no picture {p}" for p in seen["pictures"]]
                failures += [f"{page}: {c}" for c in complaints_of(browser.events, site)]
                for link in seen["links"]:
                    if link.startswith(site) and link not in links:
                        links.add(link)
                        if not is_there(folder, link[len(site):] or "index.html"):
                            failures.append(f"{page}: link to {link[len(site):]}")
            browser.resize(1280)
            browser.load(site + "index.html")
            if not search_finds(browser, "Dense"):
                failures.append("index.html: the search does not find Dense")
        finally:
            browser.close()
    print(*failures, sep="\n")
    print(f"{len(pages)} pages at {' and '.join(map(str, WIDTHS))} pixels, {len(links)} links: {len(failures)} failures")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
