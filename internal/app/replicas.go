package app

import (
	"fmt"
	"strconv"
)

// PerNode is the text of replicas that stands for one member on each listed node.
const PerNode = "per-node"

// MaxReplicas bounds a count. It is far above what one App on a small cluster can use, and keeps instance names short.
const MaxReplicas = 1000

// Replicas says how many members an App has: a count, or one for each listed node. Never where they are.
type Replicas struct {
	Count   int // 1 to MaxReplicas; 0 for per-node
	PerNode bool
}

// ParseReplicas reads a whole number from 1 to MaxReplicas, or "per-node".
func ParseReplicas(text string) (Replicas, error) {
	if text == PerNode {
		return Replicas{PerNode: true}, nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || strconv.Itoa(n) != text:
		return Replicas{}, fmt.Errorf("replicas %q is neither a whole number nor %q", text, PerNode)
	case n == 0:
		return Replicas{}, fmt.Errorf("replicas is 0: an App has at least one member; to remove it, destroy the resource")
	case n < 0:
		return Replicas{}, fmt.Errorf("replicas is %d: it must be 1 or more, or %q", n, PerNode)
	case n > MaxReplicas:
		return Replicas{}, fmt.Errorf("replicas is %d: more than %d members in one App are not supported", n, MaxReplicas)
	}
	return Replicas{Count: n}, nil
}

// String returns what ParseReplicas read.
func (r Replicas) String() string {
	if r.PerNode {
		return PerNode
	}
	return strconv.Itoa(r.Count)
}
