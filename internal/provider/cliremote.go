package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// cliConfig is what the Incus CLI keeps in its config.yml, as far as it is needed here.
type cliConfig struct {
	Remotes map[string]struct {
		Addr     string `yaml:"addr"`
		AuthType string `yaml:"auth_type"`
		Project  string `yaml:"project"`
		Protocol string `yaml:"protocol"`
		Public   bool   `yaml:"public"`
	} `yaml:"remotes"`
}

// takeRemote fills in what is not set from a remote of the Incus CLI.
func (s *settings) takeRemote() error {
	dir, err := cliDirectory()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.yml"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the Incus CLI's configuration: %w", err)
	}
	var config cliConfig
	if err := yaml.Unmarshal(text, &config); err != nil {
		return fmt.Errorf("read the Incus CLI's configuration in %s: %w", dir, err)
	}
	remote, found := config.Remotes[s.remote]
	switch {
	case !found && s.remote == "local":
		remote.Addr = "unix://" // the CLI has it without writing it down
	case !found:
		return fmt.Errorf("the Incus CLI's configuration in %s has no remote %q: it has %s", dir, s.remote, strings.Join(slices.Sorted(maps.Keys(config.Remotes)), ", "))
	case remote.Protocol != "" && remote.Protocol != "incus" || remote.Public:
		return fmt.Errorf("the remote %q of the Incus CLI is an image server (%s), not one that runs instances", s.remote, remote.Addr)
	}
	s.address = remote.Addr
	if strings.HasPrefix(remote.Addr, "unix:") {
		s.address = cliSocket(strings.TrimPrefix(strings.TrimPrefix(remote.Addr, "unix:"), "//"))
	}
	if s.project == "" {
		s.project = remote.Project
	}
	if !strings.HasPrefix(s.address, "https:") {
		return nil
	}
	if remote.AuthType == "oidc" && s.oidcToken == "" {
		return fmt.Errorf("the remote %q uses OpenID Connect: set oidc_token", s.remote)
	}
	for _, file := range []struct {
		to   *string
		name string
		also string // set together with it, or not at all
	}{
		{&s.clientCertificate, "client.crt", s.clientKey},
		{&s.clientKey, "client.key", s.clientCertificate},
		{&s.serverCertificate, filepath.Join("servercerts", s.remote+".crt"), ""},
	} {
		path := filepath.Join(dir, file.name)
		if _, err := os.Stat(path); *file.to == "" && file.also == "" && err == nil {
			*file.to = path
		}
	}
	return nil
}

// cliDirectory is where the Incus CLI keeps its configuration.
func cliDirectory() (string, error) {
	if dir := os.Getenv("INCUS_CONF"); dir != "" {
		return dir, nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the Incus CLI's configuration: set INCUS_CONF, or leave remote out: %w", err)
	}
	return filepath.Join(home, ".config", "incus"), nil
}

// cliSocket is the socket that the CLI would use: the one that the remote names, else by its own variables.
func cliSocket(named string) string {
	switch {
	case named != "":
		return "unix://" + named
	case os.Getenv("INCUS_SOCKET") != "":
		return "unix://" + os.Getenv("INCUS_SOCKET")
	case os.Getenv("INCUS_DIR") != "":
		return "unix://" + filepath.Join(os.Getenv("INCUS_DIR"), "unix.socket")
	}
	return ""
}
