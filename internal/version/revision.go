package version

import (
	"cmp"
	"strings"
)

// revision tells whether a build is a packager's revision, which has an order, and not the name of a variant.
func revision(build string) bool { return build != "" && isDigit(build[0]) }

// compareRevisions orders packagers' revisions as Debian Policy 5.6.12 says: runs of non-digits and of digits in turn;
// letters before other characters, "~" before everything, even the end.
func compareRevisions(a, b string) int {
	for a != "" || b != "" {
		var wordA, wordB, numberA, numberB string
		wordA, a = cut(a, func(c byte) bool { return !isDigit(c) })
		wordB, b = cut(b, func(c byte) bool { return !isDigit(c) })
		if c := compareWords(wordA, wordB); c != 0 {
			return c
		}
		numberA, a = cut(a, isDigit)
		numberB, b = cut(b, isDigit)
		numberA, numberB = strings.TrimLeft(numberA, "0"), strings.TrimLeft(numberB, "0")
		if c := cmp.Or(cmp.Compare(len(numberA), len(numberB)), cmp.Compare(numberA, numberB)); c != 0 {
			return c
		}
	}
	return 0
}

func compareWords(a, b string) int {
	for i := range max(len(a), len(b)) {
		if c := cmp.Compare(weight(a, i), weight(b, i)); c != 0 {
			return c
		}
	}
	return 0
}

func weight(s string, i int) int {
	switch {
	case i >= len(s):
		return 0
	case s[i] == '~':
		return -1
	case s[i] >= 'A' && s[i] <= 'Z', s[i] >= 'a' && s[i] <= 'z':
		return int(s[i])
	}
	return int(s[i]) + 256
}

func cut(s string, in func(byte) bool) (head, rest string) {
	i := 0
	for i < len(s) && in(s[i]) {
		i++
	}
	return s[:i], s[i:]
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }
