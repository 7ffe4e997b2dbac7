package etcd

import "testing"

// The instance of a member was deleted by hand, and its address has gone to an instance that has an etcd of its own (of another App,
// say; or another member of this App, which was started again).
func TestAnotherEtcdAtTheAddressOfADeadMemberIsNotThatMember(t *testing.T) {
	on(t, 3, func(t *testing.T, s *stage) {
		gone := s.peers[2]
		s.peers = s.peers[:2]
		s.set(func() { s.hosts[gone.Instance].id = 999 })
		s.must(s.join(s.create("2", 1)))
		s.made("remove dcs-2-g0", "add http://10.0.2.11:2380")
	})
}
