# SPDX-License-Identifier: GPL-2.0
"""Checks the two walls of ext4rs/DESIGN.md, and that filesystem code cannot panic by choice.

Wall 1  rust/: no `unsafe`, no raw pointer and no `bindings::` type in a public
        item, no exported macro that holds any of them. Above it, in ext4rs/:
        none of them at all.
Wall 2  ext4rs/layout/: only `core`; nothing of the kernel, `alloc` or `std`
        (its own tests excepted).

Works on tokens, so comments and strings do not matter. The compiler's part
(`deny(unsafe_code)`) must be switched on at the crates' roots; it does not see
what a macro of another crate expands to, which is why that is looked at here.
"""

import re
import sys
from dataclasses import dataclass
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent

TOKEN = re.compile(
    r"""(?P<blank>\s+|//[^\n]*)
      | (?P<block>/\*)
      | (?P<raw>(?:b|c|br|cr)?r(?P<hashes>\#*)".*?"(?P=hashes))
      | (?P<string>[bc]?"(?:\\.|[^"\\])*")
      | (?P<char>b?'(?:\\(?:x[0-9a-fA-F]{2}|u\{[^}]*\}|.)|[^'\\])')
      | (?P<lifetime>'[A-Za-z_]\w*)
      | (?P<ident>(?:r\#)?[A-Za-z_]\w*)
      | (?P<number>\d[\w]*)
      | (?P<punct>.)""",
    re.X | re.S,
)
OPEN, CLOSE = "([{", ")]}"


@dataclass(frozen=True)
class Token:
    text: str
    line: int


def tokenize(text: str) -> list[Token]:
    """Tokens that matter here: identifiers and punctuation, each with its line."""
    tokens, at, line = [], 0, 1
    while at < len(text):
        match = TOKEN.match(text, at)
        end = match.end()
        if match.lastgroup == "block" or match["block"]:
            depth = 1
            while depth and end < len(text):
                if text.startswith("/*", end):
                    depth, end = depth + 1, end + 2
                elif text.startswith("*/", end):
                    depth, end = depth - 1, end + 2
                else:
                    end += 1
        elif match["ident"] or match["punct"]:
            tokens.append(Token(match[0], line))
        elif match["raw"] or match["string"] or match["char"] or match["number"]:
            # Something must stand there, or neighbours would seem adjacent.
            tokens.append(Token("0", line))
        line += text.count("\n", at, end)
        at = end
    return tokens


def past_group(tokens: list[Token], at: int) -> int:
    """The index after the bracket group that opens at `at`."""
    depth = 0
    while at < len(tokens):
        depth += (tokens[at].text in OPEN) - (tokens[at].text in CLOSE)
        at += 1
        if depth == 0:
            break
    return at


def past_item(tokens: list[Token], at: int) -> int:
    """The index after the item at `at`: its first `;` or `{...}` outside brackets."""
    while at < len(tokens):
        text = tokens[at].text
        if text == ";":
            return at + 1
        if text == "{":
            return past_group(tokens, at)
        at = past_group(tokens, at) if text in OPEN else at + 1
    return at


def attribute(tokens: list[Token], at: int) -> tuple[str, int] | None:
    """The attribute at `at`, its words joined, and the index after it."""
    if tokens[at].text != "#":
        return None
    start = at + 1
    if start < len(tokens) and tokens[start].text == "!":
        start += 1
    if start >= len(tokens) or tokens[start].text != "[":
        return None
    end = past_group(tokens, start)
    return "".join(token.text for token in tokens[start + 1:end - 1]), end


def is_test_attribute(text: str) -> bool:
    return text == "test" or (text.startswith("cfg(") and re.search(r"\btest\b", text) is not None
                              and "not(test)" not in text)


def without_tests(tokens: list[Token]) -> tuple[list[Token], list[str]]:
    """The tokens less what `#[cfg(test)]` covers; and the names of test modules in files of their own."""
    kept, modules, at = [], [], 0
    while at < len(tokens):
        found = attribute(tokens, at)
        if not found or not is_test_attribute(found[0]):
            kept.append(tokens[at])
            at += 1
            continue
        at = found[1]
        while at < len(tokens) and (more := attribute(tokens, at)):
            at = more[1]
        end = past_item(tokens, at)
        words = [token.text for token in tokens[at:end]]
        if "mod" in words and words[-1] == ";":
            modules.append(words[words.index("mod") + 1])
        at = end
    return kept, modules


class Findings:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def add(self, path: Path, line: int, what: str) -> None:
        self.lines.append(f"{path.relative_to(TOP)}:{line}: {what}")


def forbidden(tokens: list[Token], imported: frozenset[str] = frozenset()):
    """Yields (line, what) for each thing that may not pass wall 1."""
    for index, token in enumerate(tokens):
        following = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text == "unsafe":
            yield token.line, "`unsafe`"
        elif token.text == "bindings":
            yield token.line, "`bindings`"
        elif token.text in imported:
            yield token.line, f"`{token.text}`, imported from the bindings"
        elif token.text == "NonNull":
            yield token.line, "`NonNull` (a raw pointer)"
        elif token.text == "*" and following in ("const", "mut"):
            yield token.line, f"a raw pointer, `*{following}`"


def bound_names(words: list[str], inside: bool):
    """The names that a `use` tree binds to things within `bindings` (`inside`: it lies there already)."""
    depth, start = 0, 0
    for index, word in enumerate([*words, ","]):
        depth += (word == "{") - (word == "}")
        if word != "," or depth:
            continue
        branch, start = words[start:index], index + 1
        brace = branch.index("{") if "{" in branch else len(branch)
        within = inside or "bindings" in branch[:brace]
        if brace < len(branch):
            yield from bound_names(branch[brace + 1:-1], within)
        elif within and branch and branch[-1] not in ("bindings", "self", "*", "_"):
            yield branch[-1]


# --- wall 1, below: the public face of rust/ ----------------------------------

class PublicFace:
    """Walks the items of one file of rust/ and judges the public ones."""

    QUALIFIERS = ("default", "async", "const", "unsafe", "extern", "0")

    def __init__(self, path: Path, findings: Findings) -> None:
        self.path, self.findings = path, findings
        self.tokens = tokenize(path.read_text())
        self.imported = frozenset(self._imported())

    def _imported(self):
        """Names that a `use` brings in from the bindings."""
        at = 0
        while at < len(self.tokens):
            if self.tokens[at].text != "use":
                at += 1
                continue
            end = at
            while end < len(self.tokens) and self.tokens[end].text != ";":
                end += 1
            words = [token.text for token in self.tokens[at + 1:end]]
            yield from bound_names(words, inside=False)
            at = end

    def judge(self, start: int, end: int, item: str) -> None:
        for line, what in forbidden(self.tokens[start:end], self.imported):
            self.findings.add(self.path, line, f"{what} in the public {item}")

    def check(self) -> None:
        self.items(0, len(self.tokens), everything_public=False)

    def items(self, at: int, end: int, everything_public: bool) -> None:
        while at < end:
            at = self.item(at, end, everything_public)

    def item(self, at: int, end: int, public: bool) -> int:
        """Judges the item at `at`; returns the index after it."""
        tokens, exported = self.tokens, False
        while at < end and (found := attribute(tokens, at)):
            exported = exported or "macro_export" in found[0]
            at = found[1]
        if at >= end:
            return end
        if tokens[at].text == "pub":
            restricted = at + 1 < end and tokens[at + 1].text == "("
            public = public or not restricted
            at = past_group(tokens, at + 1) if restricted else at + 1
        start = at
        # `const` and `unsafe` may be qualifiers; of `const NAME: ...` it is the item itself.
        while at < end and tokens[at].text in self.QUALIFIERS and not (
                tokens[at].text == "const" and tokens[at + 1].text not in ("fn", "unsafe", "extern", "async")):
            at += 1
        word = tokens[at].text if at < end else ""
        handler = getattr(self, f"item_{word}", None)
        if handler:
            return min(handler(start, at, public), end)
        if word == "macro_rules":
            after = past_item(tokens, at)
            if exported:
                self.judge(at, after, f"macro {tokens[at + 2].text}!")
            return after
        # A macro call, or something that has no public face.
        return max(past_item(tokens, at), at + 1)

    def header_end(self, at: int) -> int:
        """The index of the `{` or `;` that ends a header."""
        while at < len(self.tokens) and self.tokens[at].text not in ("{", ";"):
            at = past_group(self.tokens, at) if self.tokens[at].text in "([" else at + 1
        return at

    def item_fn(self, start: int, at: int, public: bool) -> int:
        if public:
            self.judge(start, self.header_end(at), f"fn {self.tokens[at + 1].text}")
        return past_item(self.tokens, at)

    def whole(self, start: int, at: int, public: bool) -> int:
        after = past_item(self.tokens, at)
        if public:
            self.judge(start, after, f"{self.tokens[at].text} {self.tokens[at + 1].text}")
        return after

    # All that stands in an enum, an alias or a re-export is as public as itself.
    item_enum = item_type = item_use = whole

    def value(self, start: int, at: int, public: bool) -> int:
        """A constant: its type is public, its value is not."""
        after = at
        while after < len(self.tokens) and self.tokens[after].text != ";":
            after = past_group(self.tokens, after) if self.tokens[after].text in OPEN else after + 1
        words = [token.text for token in self.tokens[at:after]]
        if public:
            type_end = at + words.index("=") if "=" in words else after
            self.judge(start, type_end, f"{words[0]} {words[1]}")
        return after + 1

    item_const = item_static = value

    def item_struct(self, start: int, at: int, public: bool) -> int:
        tokens, body = self.tokens, at
        while tokens[body].text not in ("{", "(", ";"):
            body += 1
        after = past_item(tokens, at)
        if not public:
            return after
        name = tokens[at + 1].text
        self.judge(start, body, f"struct {name}")
        if tokens[body].text == ";":
            return after
        for first, last in self.fields(body):
            if tokens[first].text == "pub" and tokens[first + 1].text != "(":
                self.judge(first, last, f"field of struct {name}")
        return after

    item_union = item_struct

    def fields(self, body: int):
        """Index pairs of the fields in the group that opens at `body`, attributes left out."""
        end, at = past_group(self.tokens, body) - 1, body + 1
        while at < end:
            while at < end and (found := attribute(self.tokens, at)):
                at = found[1]
            first, angles = at, 0
            while at < end and not (self.tokens[at].text == "," and angles <= 0):
                text = self.tokens[at].text
                angles += (text == "<") - (text == ">" and self.tokens[at - 1].text != "-")
                at = past_group(self.tokens, at) if text in OPEN else at + 1
            if first < at:
                yield first, at
            at += 1

    def item_trait(self, start: int, at: int, public: bool) -> int:
        body = self.header_end(at)
        if public:
            self.judge(start, body, f"trait {self.tokens[at + 1].text}")
        after = past_item(self.tokens, at)
        self.items(body + 1, after - 1, everything_public=public)
        return after

    def item_impl(self, start: int, at: int, public: bool) -> int:
        # What a trait's functions take is the trait's choice; `pub` marks the
        # rest.
        body, after = self.header_end(at), past_item(self.tokens, at)
        self.items(body + 1, after - 1, everything_public=False)
        return after

    def item_mod(self, start: int, at: int, public: bool) -> int:
        body, after = self.header_end(at), past_item(self.tokens, at)
        if public and self.tokens[at + 1].text == "bindings":
            self.findings.add(self.path, self.tokens[at].line, "the bindings are a public module")
        if self.tokens[body].text == "{":
            self.items(body + 1, after - 1, everything_public=False)
        return after


# --- wall 1, above, and wall 2 ------------------------------------------------

PANICS = {"panic", "unreachable", "todo", "unimplemented"}
FOREIGN = {"kernel", "alloc", "std", "ext4rs_vfs", "bindings", "macros"}


def check_filesystem(path: Path, tokens: list[Token], findings: Findings) -> None:
    for line, what in forbidden(tokens):
        findings.add(path, line, f"{what} above the wall")
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        after = tokens[index + 1].text if index + 1 < len(tokens) else ""
        if token.text in ("unwrap", "expect") and before == "." and after == "(":
            findings.add(path, token.line, f"`.{token.text}()` can panic")
        elif token.text in PANICS and after == "!":
            findings.add(path, token.line, f"`{token.text}!`")
        elif token.text == "unsafe_code" and any(
                word.text in ("allow", "warn", "expect") for word in tokens[max(0, index - 3):index]):
            findings.add(path, token.line, "`unsafe_code` must stay denied")


def check_layout(path: Path, tokens: list[Token], findings: Findings) -> None:
    for index, token in enumerate(tokens):
        before = tokens[index - 1].text if index else ""
        path_root = [word.text for word in tokens[index + 1:index + 3]] == [":", ":"] and before != ":"
        if token.text in FOREIGN and (path_root or before in ("crate", "use")):
            findings.add(path, token.line, f"the layout uses `{token.text}`; it may use `core` only")


def check_root(path: Path, wanted: str, findings: Findings) -> None:
    if not path.exists():
        findings.add(path, 1, "no such file")
    elif not re.search(wanted, path.read_text(), re.M):
        findings.add(path, 1, f"lacks {wanted}")


def test_files(folder: Path) -> set[Path]:
    """Files that are modules for tests only."""
    found = set()
    for path in folder.rglob("*.rs"):
        base = path.parent if path.name in ("mod.rs", "lib.rs", "module.rs") else path.with_suffix("")
        for name in without_tests(tokenize(path.read_text()))[1]:
            found |= {base / f"{name}.rs", *(base / name).rglob("*.rs")}
    return found


def main() -> int:
    listed = [TOP / line for line in (TOP / "build/lint/files").read_text().splitlines() if line.endswith(".rs")]
    findings = Findings()
    for path in listed:
        if path.is_relative_to(TOP / "rust"):
            PublicFace(path, findings).check()
    above = [path for path in listed if path.is_relative_to(TOP / "ext4rs")]
    tests = test_files(TOP / "ext4rs")
    for path in above:
        tokens = tokenize(path.read_text())
        if path in tests:
            for line, what in forbidden(tokens):
                findings.add(path, line, f"{what} above the wall")
            continue
        tokens = without_tests(tokens)[0]
        check_filesystem(path, tokens, findings)
        if path.is_relative_to(TOP / "ext4rs/layout"):
            check_layout(path, tokens, findings)
    denied = r"^#!\[(deny|forbid)\(unsafe_code\)\]"
    check_root(TOP / "ext4rs/module.rs", denied, findings)
    check_root(TOP / "ext4rs/layout/lib.rs", denied, findings)
    if not above:
        findings.lines.append("no Rust file in ext4rs/: nothing was checked")
    print("\n".join(findings.lines))
    return 1 if findings.lines else 0


if __name__ == "__main__":
    sys.exit(main())
