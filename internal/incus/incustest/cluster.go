package incustest

import (
	"net/http"
	"slices"

	"github.com/homelabops/terraform-provider-homelabops/internal/incus"
)

// OfflineMember takes a member off the network: its instances are shown as errors without content, and asking for one of
// them fails.
func (s *Server) OfflineMember(name string) {
	s.setMember(name, "Offline", "No heartbeat for 25s")
}

// OnlineMember brings a member back.
func (s *Server) OnlineMember(name string) { s.setMember(name, "Online", "Fully operational") }

// SetMemberStatus gives a member another status word, for example "Evacuated".
func (s *Server) SetMemberStatus(name, status string) { s.setMember(name, status, status) }

func (s *Server) setMember(name, status, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, member := range s.members {
		if member.ServerName == name {
			member.Status, member.Message = status, message
		}
	}
}

// offline tells whether a member can't be reached. The lock is held.
func (s *Server) offline(name string) bool {
	return slices.ContainsFunc(s.members, func(m *incus.ClusterMember) bool { return m.ServerName == name && m.Status == "Offline" })
}

func (s *Server) listMembers(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clustered {
		return nil, fail(http.StatusInternalServerError, "Server is not clustered")
	}
	shown := []incus.ClusterMember{}
	for _, member := range s.members {
		shown = append(shown, *member)
	}
	return list(r, shown, func(m incus.ClusterMember) string { return "/1.0/cluster/members/" + m.ServerName }), nil
}

func (s *Server) getMember(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clustered {
		return nil, fail(http.StatusInternalServerError, "Server is not clustered")
	}
	for _, member := range s.members {
		if member.ServerName == r.PathValue("name") {
			return object(*member), nil
		}
	}
	return nil, fail(http.StatusNotFound, "Cluster member not found")
}

func (s *Server) listGroups(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clustered {
		return nil, fail(http.StatusBadRequest, "This server is not clustered")
	}
	return list(r, s.groups, func(g incus.ClusterGroup) string { return "/1.0/cluster/groups/" + g.Name }), nil
}

func (s *Server) getGroup(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.clustered {
		return nil, fail(http.StatusBadRequest, "This server is not clustered")
	}
	for _, group := range s.groups {
		if group.Name == r.PathValue("name") {
			return object(group), nil
		}
	}
	return nil, fail(http.StatusNotFound, "Cluster group not found")
}

func (s *Server) listPools(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return list(r, s.pools, func(p incus.StoragePool) string { return "/1.0/storage-pools/" + p.Name }), nil
}

func (s *Server) getPool(r *http.Request) (reply, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pool := range s.pools {
		if pool.Name == r.PathValue("name") {
			return object(pool), nil
		}
	}
	return nil, fail(http.StatusNotFound, "Storage pool not found")
}
