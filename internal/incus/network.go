package incus

// Network is one network of the server, managed or not.
type Network struct {
	Name    string            `json:"name"`
	Type    string            `json:"type"` // "bridge", "ovn", "macvlan", "physical", …
	Managed bool              `json:"managed"`
	Status  string            `json:"status"`
	Config  map[string]string `json:"config"`
}

// NetworkForward is an address of a network whose ports lead to addresses of instances.
type NetworkForward struct {
	ListenAddress string               `json:"listen_address"`
	Location      string               `json:"location,omitempty"`
	Description   string               `json:"description"`
	Config        map[string]string    `json:"config"`
	Ports         []NetworkForwardPort `json:"ports"`
}

// NetworkForwardPort is one rule of a forward. Ports are comma-separated lists of ports and ranges.
type NetworkForwardPort struct {
	Description   string `json:"description"`
	Protocol      string `json:"protocol"` // "tcp" or "udp"
	ListenPort    string `json:"listen_port"`
	TargetPort    string `json:"target_port,omitempty"`
	TargetAddress string `json:"target_address"`
}
