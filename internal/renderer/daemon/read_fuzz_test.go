package daemon

import (
	"bytes"
	"slices"
	"strconv"
	"testing"
	"unicode/utf8"
)

func FuzzParseAnswer(f *testing.F) {
	for _, raw := range []string{
		"", "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nconfig reloaded\n", "HTTP/1.1 400 Bad Request\r\n\r\nline 1: \xff", "HTTP/1.1 200", "HTTP/2 999 x",
		"SSH-2.0-OpenSSH_9.2\r\n", "\r\nHTTP/1.0 200 OK\r\n\r\n", "HTTP/1.0 2000\r\n\r\n",
	} {
		f.Add([]byte(raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := parseAnswer(raw)
		if !ok {
			if got != (answer{}) {
				t.Errorf("%q is no answer, and says %+v", raw, got)
			}
			return
		}
		if got.status < 100 || got.status > 599 || !bytes.Contains(raw[:min(len(raw), 100)], []byte(strconv.Itoa(got.status))) && len(raw) < 100 {
			t.Errorf("%q has the status %d", raw, got.status)
		}
		if got.body == "" || !utf8.ValidString(got.body) || utf8.RuneCountInString(got.body) > saidAtMost+1 {
			t.Errorf("%q says %q", raw, got.body)
		}
	})
}

func FuzzParseProcesses(f *testing.F) {
	for _, stats := range []string{
		"", "1 (init) S 0 1 1\n7 (a (b) c) S 1 1 1\n20 (served) Z 5 5 5\n5 (served) S 1 5 5\n9 (served) S 5 5 5\n", "3 (served) R 1\n5 (served) S 1\n9 (served) S 5\n",
		"(served)\nx (served) S 1\n5 (served) S\n5 )served( S 1\n", "5 (served) S 5\n", "5 (served) S 6\n6 (served) S 5\n", "0 (served) S 7\n4 (served) S 0\n",
		"-1 (served) S 1\n4 (served) S -1\n", "5 (served) S 1\n9 (served) S 5\n9 (served) S 5\n",
	} {
		f.Add(stats)
	}
	f.Fuzz(func(t *testing.T, stats string) {
		got := parseProcesses(stats, "served")
		if (got.master == 0) != (len(got.workers) == 0) {
			t.Errorf("%q: a master without workers, or the other way round: %+v", stats, got)
		}
		// They are sent signals: 0 and less would reach other processes too.
		if got.master < 0 || slices.ContainsFunc(got.workers, func(pid int) bool { return pid < 1 || pid == got.master }) {
			t.Errorf("%q: %+v", stats, got)
		}
	})
}
