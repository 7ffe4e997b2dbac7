package lab

import (
	"regexp"
	"testing"
)

func TestProjectNameIsShortUniqueAndValid(t *testing.T) {
	valid := regexp.MustCompile(`^t-[a-z0-9]{0,24}-[a-z0-9]{8}$`)
	for _, test := range []string{"TestShort", "TestWith/sub_test#01", "TestAVeryLongNameThatSaysEverythingThereIsToSay", "TestÜmlaut"} {
		first, second := projectName(test), projectName(test)
		if !valid.MatchString(first) {
			t.Errorf("%s becomes %q", test, first)
		}
		if first == second {
			t.Errorf("%s becomes %q twice", test, first)
		}
	}
}
