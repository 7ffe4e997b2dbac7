package etcd

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The file lies in an instance, where anybody in it may write.
func FuzzParseConfiguration(f *testing.F) {
	const written = "name: dcs-1-g4\ndata-dir: /var/lib/etcd/dcs-1-g4\nlisten-peer-urls: http://0.0.0.0:2380\nlisten-client-urls: http://0.0.0.0:2379\n" +
		"initial-advertise-peer-urls: http://10.0.0.7:2380\nadvertise-client-urls: http://10.0.0.7:2379\ninitial-cluster: dcs-1-g4=http://10.0.0.7:2380\n" +
		"initial-cluster-state: new\nenable-grpc-gateway: true\nheartbeat-interval: 100\nelection-timeout: 1000\n"
	for _, text := range []string{
		``, `null`, `{}`, `- a`, "ETCD_NAME=x", "name: [\n", written, written + "experimental-something: {a: [1, 2.5, null]}\n",
		written + "peer-transport-security: {cert-file: /a, key-file: /b, trusted-ca-file: /c, client-cert-auth: true}\n",
		written + "<<: {name: other}\n", written + "1: 2\n", written + "name: again\n",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		c, err := parseConfiguration(text)
		if err != nil {
			if err.Error() == "" {
				t.Errorf("%q: an error without a word", text)
			}
			return
		}
		written, err := c.at("10.0.0.9").text()
		if err != nil {
			t.Fatalf("%q was read and can't be written: %v", text, err)
		}
		again, err := parseConfiguration(written)
		if err != nil {
			t.Fatalf("%q was read, and what was written of it can't be: %v\n%s", text, err, written)
		}
		if twice, err := again.text(); err != nil || twice != written {
			t.Errorf("%q was written as\n%s\nand then as\n%s (%v)", text, written, twice, err)
		}
		if diff := cmp.Diff(hostOf(again.AdvertisePeers), "10.0.0.9"); diff != "" && hostOf(c.AdvertisePeers) != "" {
			t.Errorf("%q: %s", text, diff)
		}
	})
}
