package prometheus

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

func FuzzRetention(f *testing.F) {
	for _, text := range []string{"", "15d", "0d", "1y2w3d4h5m6s7ms", "12h1d", "15 days", "290y", "291y", "293y", "99999999999999999999y", "106751d24h", "9223372036854ms", "1ms", "-1d", "1d\n"} {
		f.Add(text)
	}
	milliseconds := map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000, "y": 31_536_000_000}
	f.Fuzz(func(t *testing.T, text string) {
		if err := checkRetention(text); err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a word", text)
			}
			return
		}
		// As Prometheus counts: in nanoseconds that an int64 holds.
		total := new(big.Int)
		for rest := text; rest != ""; {
			after := strings.TrimLeft(rest, "0123456789")
			n, isNumber := new(big.Int).SetString(rest[:len(rest)-len(after)], 10)
			unit := after[:len(after)-len(strings.TrimLeft(after, "abcdefghijklmnopqrstuvwxyz"))]
			if !isNumber || milliseconds[unit] == 0 {
				t.Fatalf("%q is no duration of Prometheus", text)
			}
			total.Add(total, n.Mul(n, big.NewInt(milliseconds[unit]*1_000_000)))
			rest = after[len(unit):]
		}
		if total.Sign() <= 0 || total.Cmp(big.NewInt(math.MaxInt64)) > 0 {
			t.Errorf("%q is %s ns", text, total)
		}
	})
}
