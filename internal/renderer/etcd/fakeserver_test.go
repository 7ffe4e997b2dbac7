package etcd

import (
	"context"
	"slices"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// intercept loses answers, counts calls, and lets a server be silent.
func (h *host) intercept(ctx context.Context, request any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	f := h.fake
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	isChange := method != "Status" && method != "MemberList" && method != "Range"
	if isChange {
		f.call()
	}
	f.mu.Lock()
	lost := false
	if isChange {
		f.asked++
		lost = f.asked == f.lose
	}
	led := f.leader != 0 && f.member(h.id) != nil
	silent := h.down || h.frozen || isChange && !led
	f.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	answer, err := handle(ctx, request)
	if lost {
		if f.slow {
			<-ctx.Done()
		}
		return nil, status.Error(codes.Unavailable, "transport is closing")
	}
	return answer, err
}

func (h *host) header() *pb.ResponseHeader {
	return &pb.ResponseHeader{ClusterId: h.cluster, MemberId: h.id}
}

var errLearner = status.Error(codes.Unavailable, "etcdserver: rpc not supported for learner")

type clusterServer struct {
	pb.UnimplementedClusterServer
	h *host
}

func (s clusterServer) MemberList(_ context.Context, r *pb.MemberListRequest) (*pb.MemberListResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.member(s.h.id); m == nil || m.IsLearner {
		return nil, errLearner
	}
	if r.Linearizable && f.leader == 0 {
		return nil, rpctypes.ErrGRPCTimeout
	}
	if f.older != nil && s.h.id != f.leader {
		return &pb.MemberListResponse{Header: s.h.header(), Members: f.older}, nil
	}
	return &pb.MemberListResponse{Header: s.h.header(), Members: f.copies()}, nil
}

func (f *fake) copies() []*pb.Member {
	var all []*pb.Member
	for _, m := range f.members {
		c := *m
		all = append(all, &c)
	}
	return all
}

func (s clusterServer) MemberAdd(_ context.Context, r *pb.MemberAddRequest) (*pb.MemberAddResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.denied {
		return nil, rpctypes.ErrGRPCPermissionDenied
	}
	alive, voters := f.alive()
	for _, m := range f.members {
		switch {
		case m.PeerURLs[0] == r.PeerURLs[0]:
			return nil, rpctypes.ErrGRPCPeerURLExist
		case m.IsLearner && r.IsLearner:
			return nil, rpctypes.ErrGRPCTooManyLearners
		}
	}
	if f.unhealthy > 0 || alive < voters {
		f.unhealthy--
		return nil, rpctypes.ErrGRPCUnhealthy
	}
	f.next++
	m := &pb.Member{ID: f.next, PeerURLs: r.PeerURLs, IsLearner: r.IsLearner}
	f.members = append(f.members, m)
	f.changed("add %s", r.PeerURLs[0])
	c := *m
	return &pb.MemberAddResponse{Header: s.h.header(), Member: &c, Members: f.copies()}, nil
}

func (s clusterServer) MemberPromote(_ context.Context, r *pb.MemberPromoteRequest) (*pb.MemberPromoteResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.member(r.ID)
	switch {
	case m == nil:
		return nil, rpctypes.ErrGRPCMemberNotFound
	case !m.IsLearner:
		return nil, rpctypes.ErrGRPCMemberNotLearner
	case m.Name == "" || f.behind > 0:
		f.behind--
		return nil, rpctypes.ErrGRPCLearnerNotReady
	}
	m.IsLearner = false
	f.changed("promote %s", m.Name)
	return &pb.MemberPromoteResponse{Header: s.h.header(), Members: f.copies()}, nil
}

func (s clusterServer) MemberRemove(_ context.Context, r *pb.MemberRemoveRequest) (*pb.MemberRemoveResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.member(r.ID)
	if m == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	name := m.Name
	if name == "" {
		name = m.PeerURLs[0]
	}
	f.members = slices.DeleteFunc(f.members, func(m *pb.Member) bool { return m.ID == r.ID })
	if f.leader == r.ID {
		f.t.Errorf("the leader %s is removed", name)
		f.leader = 0
	}
	f.changed("remove %s", name)
	f.elect()
	for _, h := range f.hosts {
		if h.id == r.ID {
			h.down = true
		}
	}
	return &pb.MemberRemoveResponse{Header: s.h.header(), Members: f.copies()}, nil
}

func (s clusterServer) MemberUpdate(_ context.Context, r *pb.MemberUpdateRequest) (*pb.MemberUpdateResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.member(r.ID)
	if m == nil {
		return nil, rpctypes.ErrGRPCMemberNotFound
	}
	m.PeerURLs = r.PeerURLs
	f.changed("update %s %s", m.Name, r.PeerURLs[0])
	return &pb.MemberUpdateResponse{Header: s.h.header(), Members: f.copies()}, nil
}

type maintenanceServer struct {
	pb.UnimplementedMaintenanceServer
	h *host
}

func (s maintenanceServer) Status(ctx context.Context, _ *pb.StatusRequest) (*pb.StatusResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	m, formed := f.member(s.h.id), s.h.cluster == f.cluster
	r := &pb.StatusResponse{Header: s.h.header(), Leader: f.leader, Errors: f.alarms, Version: "3.5.16"}
	if m != nil {
		r.IsLearner = m.IsLearner
	}
	if f.leader == 0 {
		r.Errors = append(r.Errors, rpctypes.ErrNoLeader.Error())
	}
	f.mu.Unlock()
	if !formed {
		<-ctx.Done() // etcd serves nobody before it has a cluster
		return nil, ctx.Err()
	}
	return r, nil
}

func (s maintenanceServer) MoveLeader(_ context.Context, r *pb.MoveLeaderRequest) (*pb.MoveLeaderResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	m := f.member(r.TargetID)
	switch {
	case f.leader != s.h.id:
		return nil, rpctypes.ErrGRPCNotLeader
	case m == nil || m.IsLearner:
		return nil, rpctypes.ErrGRPCBadLeaderTransferee
	}
	f.leader = r.TargetID
	f.changed("lead %s", m.Name)
	return &pb.MoveLeaderResponse{Header: s.h.header()}, nil
}

type kvServer struct {
	pb.UnimplementedKVServer
	h *host
}

func (s kvServer) Range(context.Context, *pb.RangeRequest) (*pb.RangeResponse, error) {
	f := s.h.fake
	f.mu.Lock()
	defer f.mu.Unlock()
	if m := f.member(s.h.id); m == nil || m.IsLearner {
		return nil, errLearner
	}
	switch {
	case f.denied:
		return nil, rpctypes.ErrGRPCPermissionDenied
	case f.leader == 0 || f.unread:
		return nil, rpctypes.ErrGRPCTimeout
	}
	return &pb.RangeResponse{Header: s.h.header()}, nil
}

func addRequest(url string) *pb.MemberAddRequest {
	return &pb.MemberAddRequest{PeerURLs: []string{url}, IsLearner: true}
}
