package fleet

import "testing"

func TestSpreadTakesTheEmptiestOnlineNode(t *testing.T) {
	nodes := []Node{{Name: "a", Status: "online"}, {Name: "b", Status: "offline"}, {Name: "c", Status: "online"}, {Name: "d", Status: "evacuated"}}
	taken := map[string]int{}
	var got []string
	for range 4 {
		node := Spread(nodes, taken)
		taken[node]++
		got = append(got, node)
	}
	want := []string{"a", "c", "a", "c"}
	for n := range want {
		if got[n] != want[n] {
			t.Fatalf("four members went to %v, want %v", got, want)
		}
	}
	if node := Spread(nodes[1:2], taken); node != "" {
		t.Errorf("with no node online got %q, want none", node)
	}
}
