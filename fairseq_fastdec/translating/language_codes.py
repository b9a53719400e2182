"""ISO 639 codes of languages: two letters, and the codes of three letters that models use."""

# Some models name a macrolanguage, such as Arabic, by its standard variety.
CODES: dict[str, str] = {
    "af": "afr", "ak": "aka", "am": "amh", "ar": "ara arb", "as": "asm", "ast": "ast",
    "az": "aze azj", "ba": "bak", "be": "bel", "bg": "bul", "bm": "bam", "bn": "ben", "bo": "bod",
    "br": "bre", "bs": "bos", "ca": "cat", "ceb": "ceb", "cs": "ces", "cy": "cym", "da": "dan",
    "de": "deu ger", "dz": "dzo", "ee": "ewe", "el": "ell", "en": "eng", "eo": "epo", "es": "spa",
    "et": "est ekk", "eu": "eus", "fa": "fas pes", "ff": "ful fuv", "fi": "fin", "fj": "fij",
    "fo": "fao", "fr": "fra fre", "fy": "fry", "ga": "gle", "gd": "gla", "gl": "glg", "gn": "grn",
    "gu": "guj", "ha": "hau", "he": "heb iw", "hi": "hin", "hr": "hrv", "ht": "hat", "hu": "hun",
    "hy": "hye", "id": "ind", "ig": "ibo", "ilo": "ilo", "is": "isl", "it": "ita", "ja": "jpn",
    "jv": "jav", "ka": "kat", "kg": "kon", "ki": "kik", "kk": "kaz", "km": "khm", "kn": "kan",
    "ko": "kor", "ky": "kir", "lb": "ltz", "lg": "lug", "li": "lim", "ln": "lin", "lo": "lao",
    "lt": "lit", "lv": "lav lvs", "mg": "mlg plt", "mi": "mri", "mk": "mkd", "ml": "mal",
    "mn": "mon khk", "mr": "mar", "ms": "msa zsm", "mt": "mlt", "my": "mya", "nb": "nob",
    "ne": "nep npi", "nl": "nld", "nn": "nno", "no": "nor", "ns": "nso", "ny": "nya", "oc": "oci",
    "om": "orm gaz", "or": "ori ory", "pa": "pan", "pl": "pol", "ps": "pus pbt", "pt": "por",
    "qu": "que quy", "rn": "run", "ro": "ron", "ru": "rus", "rw": "kin", "sa": "san", "sc": "srd",
    "sd": "snd", "sg": "sag", "si": "sin", "sk": "slk", "sl": "slv", "sm": "smo", "sn": "sna",
    "so": "som", "sq": "sqi als", "sr": "srp", "ss": "ssw", "st": "sot", "su": "sun", "sv": "swe",
    "sw": "swa swh", "ta": "tam", "te": "tel", "tg": "tgk", "th": "tha", "ti": "tir", "tk": "tuk",
    "tl": "tgl fil", "tn": "tsn", "tr": "tur", "ts": "tso", "tt": "tat", "tw": "twi", "ug": "uig",
    "uk": "ukr", "ur": "urd", "uz": "uzb uzn", "vi": "vie", "wo": "wol", "xh": "xho",
    "yi": "yid ydd", "yo": "yor", "zh": "zho cmn", "zu": "zul",
}  # fmt: skip
SHORT = {long: short for short, codes in CODES.items() for long in codes.split()}


def plain(name: str) -> str:
    """A language's name in one spelling: ``pt_br`` of ``pt-BR`` and ``pt_BR``."""
    return name.replace("-", "_").lower()


def language_of(name: str) -> str:
    """The ISO 639-1 code of a language's name, such as ``en`` of ``eng_Latn`` and ``en_XX``.

    Languages without one keep their code.
    """
    code = plain(name).partition("_")[0]
    return SHORT.get(code, code)


def script_of(name: str) -> str:
    """The script in a language's name, such as ``Hant`` of ``zho_Hant``; empty without one."""
    parts = plain(name).split("_")[1:]
    return next((part.title() for part in parts if len(part) == 4 and part.isalpha()), "")


def are_same(name: str, code: str) -> bool:
    """Whether a model's name is of the language of a code and, if the code has one, its script."""
    is_script = script_of(code) in ("", script_of(name))
    return language_of(name) == language_of(code) and is_script
