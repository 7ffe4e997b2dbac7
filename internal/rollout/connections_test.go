package rollout

import "testing"

// Lines as Linux writes them. The instance has 10.0.0.5 and fd00::5; 10.0.0.9 and fd00::9 have moved on.
const (
	sockets = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1
   1: 0500000A:0050 0700000A:8A3C 01 00000000:00000000 00:00000000 00000000     0        0 2
   2: 0900000A:0050 0700000A:8A3D 01 00000000:00000000 00:00000000 00000000     0        0 3
   3: 0500000A:1F90 0700000A:8A3E 01 00000000:00000000 00:00000000 00000000     0        0 4
   4: 0500000A:0050 0700000A:8A3F 06 00000000:00000000 00:00000000 00000000     0        0 5
`
	sockets6 = `  sl  local_address                         remote_address                        st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 000000FD000000000000000005000000 000000FD000000000000000007000000:8A3C 01 0 0
   1: 000000FD000000000000000005000000:0050 000000FD000000000000000007000000:8A3C 01 00000000:00000000 00:00000000 00000000     0        0 6
   2: 000000FD000000000000000009000000:0050 000000FD000000000000000007000000:8A3D 01 00000000:00000000 00:00000000 00000000     0        0 7
   3: 0000000000000000FFFF00000500000A:0050 0000000000000000FFFF00000700000A:8A40 01 00000000:00000000 00:00000000 00000000     0        0 8
   4: 0000000000000000FFFF00000900000A:0050 0000000000000000FFFF00000700000A:8A41 01 00000000:00000000 00:00000000 00000000     0        0 9
`
	routes = `Local:
  +-- 0.0.0.0/0 3 0 5
     |-- 10.0.0.0
        /24 link UNICAST
     |-- 10.0.0.5
        /32 host LOCAL
     |-- 127.0.0.1
        /32 host LOCAL
     |-- 10.0.0.255
        /32 link BROADCAST
`
	interfaces = `fd000000000000000000000000000005 02 40 00 80     eth0
00000000000000000000000000000001 01 80 10 80       lo
`
)

func TestConnectionsToAnAddressThatHasMovedOnAreDead(t *testing.T) {
	for name, c := range map[string]struct {
		tables string
		ports  []int
		want   int
	}{
		"all tables":       {sockets + sockets6 + routes + interfaces, []int{80}, 3},
		"another port":     {sockets + sockets6 + routes + interfaces, []int{8080}, 1},
		"no IPv6":          {sockets + routes, []int{80}, 1},
		"no addresses":     {sockets + sockets6, []int{80}, 6},
		"only IPv4 routes": {sockets + sockets6 + routes, []int{80}, 4},
		"nothing":          {"", []int{80}, 0},
	} {
		if got := established([]byte(c.tables), c.ports); got != c.want {
			t.Errorf("%s: %d connections, want %d", name, got, c.want)
		}
	}
}
