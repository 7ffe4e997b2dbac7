package incus

import "slices"

// Server is what GET /1.0 says.
type Server struct {
	APIExtensions []string       `json:"api_extensions"`
	APIVersion    string         `json:"api_version"`
	Auth          string         `json:"auth"` // "trusted" or "untrusted"
	AuthMethods   []string       `json:"auth_methods"`
	Config        map[string]any `json:"config"`
	Environment   Environment    `json:"environment"`
}

// Environment describes the machine and the software of a server.
type Environment struct {
	Addresses              []string `json:"addresses"`
	Architectures          []string `json:"architectures"`
	Certificate            string   `json:"certificate"` // PEM; the cluster's own where the server is clustered
	CertificateFingerprint string   `json:"certificate_fingerprint"`
	Server                 string   `json:"server"`
	ServerName             string   `json:"server_name"`
	ServerVersion          string   `json:"server_version"`
	ServerClustered        bool     `json:"server_clustered"`
	Project                string   `json:"project"`
	// StorageSupportedDrivers are the storage drivers that the server can use.
	StorageSupportedDrivers []StorageDriver `json:"storage_supported_drivers"`
}

// StorageDriver is a storage driver of a server. Incus writes these fields with capitals.
type StorageDriver struct {
	Name    string `json:"Name"`
	Version string `json:"Version"`
	Remote  bool   `json:"Remote"` // every member of a cluster reaches its pools
}

// HasExtension tells whether the server speaks an API extension.
func (s *Server) HasExtension(name string) bool { return slices.Contains(s.APIExtensions, name) }

// ClusterMember is one server of a cluster.
type ClusterMember struct {
	ServerName   string            `json:"server_name"`
	URL          string            `json:"url"`
	Status       string            `json:"status"` // "Online", "Offline", "Evacuated", "Blocked"
	Message      string            `json:"message"`
	Architecture string            `json:"architecture"`
	Roles        []string          `json:"roles"`
	Groups       []string          `json:"groups"`
	Description  string            `json:"description"`
	Config       map[string]string `json:"config"`
}

// Project is a namespace of the server.
type Project struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Config      map[string]string `json:"config"`
}

// Profile is a named set of configuration that instances share.
type Profile struct {
	Name        string                       `json:"name"`
	Description string                       `json:"description"`
	Config      map[string]string            `json:"config"`
	Devices     map[string]map[string]string `json:"devices"`
}

// StoragePool is a pool of the server.
type StoragePool struct {
	Name   string            `json:"name"`
	Driver string            `json:"driver"`
	Status string            `json:"status"`
	Config map[string]string `json:"config"`
}
