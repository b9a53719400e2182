"""The page in a browser."""

import shutil

import pytest

from tests.support import skips
from tests.support.services import UpperCase, running, until

LIMIT = 60


class Marked(UpperCase):
    """Its translations end with the target language."""

    async def translate_async(self, text, **options):
        return f"{await super().translate_async(text, **options)} [{self.target_lang}]"


class Page:
    """The page of a server in a browser."""

    def __init__(self, browser, port):
        self._browser = browser
        browser.get(f"http://127.0.0.1:{port}/")
        until(lambda: self.options("target"))

    def element(self, name):
        return self._browser.find_element("id", name)

    def options(self, name):
        """The choices of a select element."""
        return [own.text for own in self.element(name).find_elements("tag name", "option")]

    def choose(self, name, text):
        for own in self.element(name).find_elements("tag name", "option"):
            if own.text == text:
                own.click()

    def type(self, text, name="text"):
        self.element(name).clear()
        self.element(name).send_keys(text)

    def shows(self, translation, message=""):
        """Wait until the page shows a translation and a message."""

        def shown():
            value = self.element("translation").get_property("value")
            return (value, self.element("message").text) == (translation, message)

        until(shown)


@pytest.fixture(scope="module")
def browser():
    webdriver = skips.needs("selenium.webdriver")
    paths = [shutil.which(name) for name in ("chromium", "chromedriver")]
    if None in paths:
        pytest.skip(skips.BROWSER)
    options = webdriver.ChromeOptions()
    options.binary_location = paths[0]
    # Without a sandbox, since root may run the tests.
    for argument in ("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(argument)
    service = webdriver.ChromeService(executable_path=paths[1])
    with webdriver.Chrome(options, service) as opened:
        yield opened


@pytest.fixture
def page(browser):
    models = [Marked(), Marked("en", "fr"), Marked("de", "en")]
    with running(*models, max_chars=LIMIT) as port:
        yield Page(browser, port)


def test_a_translation(page):
    page.type("Open the file.\nIs it <b>there</b>?")
    page.shows("OPEN THE FILE. [de]\nIS IT <B>THERE</B>? [de]")
    page.type(" ")
    page.shows("")


def test_languages(page):
    assert page.options("source") == ["English", "German"]
    assert page.options("target") == ["German", "French"]
    page.type("Open it.")
    page.shows("OPEN IT. [de]")
    page.choose("target", "French")
    page.shows("OPEN IT. [fr]")
    page.choose("source", "German")
    page.shows("OPEN IT. [en]")
    assert page.options("target") == ["English"]


def test_texts_that_are_too_long(page):
    page.type("Open it.")
    page.shows("OPEN IT. [de]")
    page.type("This fails.")
    page.shows("", "too long: 9 tokens")
    # The page takes no more characters than the server does.
    page.type("a" * (LIMIT + 1))
    page.shows("A" * LIMIT + " [de]")


def test_a_key(browser):
    with running(api_keys=("secret",)) as port:
        page = Page(browser, port)
        page.type("Open it.")
        page.shows("", "api_key: missing or wrong")
        page.type("secret", "key")
        page.shows("OPEN IT.")


def test_a_server_that_is_gone(browser):
    with running() as port:
        page = Page(browser, port)
    page.type("Open it.")
    page.shows("", "Failed to fetch")
