package provider

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"github.com/hashicorp/terraform-plugin-framework/types/basetypes"

	"github.com/homelabops/terraform-provider-homelabops/internal/provider/argument"
)

// environmentPrefix begins the variables that stand in for attributes.
const environmentPrefix = "HOMELABOPS_"

var objectOptions = basetypes.ObjectAsOptions{UnhandledNullAsEmpty: true, UnhandledUnknownAsEmpty: true}

// settings are the provider's configuration with the environment behind it: an attribute that isn't set is taken from
// its variable.
type settings struct {
	address, remote, project                        string
	clientCertificate, clientKey, serverCertificate string
	trustToken, oidcToken, managerGroup             string
	coordination, leaseWaitText                     string
	leaseWait                                       time.Duration
	maxConcurrency                                  int
	unknown                                         []string // attributes whose value isn't known yet
}

func newSettings(m model) (settings, diag.Diagnostics) {
	var s settings
	var diags diag.Diagnostics
	for _, one := range []struct {
		to   *string
		from types.String
		name string
	}{
		{&s.address, m.Address, "address"},
		{&s.remote, m.Remote, "remote"},
		{&s.project, m.Project, "project"},
		{&s.clientCertificate, m.ClientCertificate, "client_certificate"},
		{&s.clientKey, m.ClientKey, "client_key"},
		{&s.serverCertificate, m.ServerCertificate, "server_certificate"},
		{&s.trustToken, m.TrustToken, "trust_token"},
		{&s.oidcToken, m.OIDCToken, "oidc_token"},
		{&s.managerGroup, m.ManagerGroup, "manager_group"},
		{&s.coordination, m.Coordination, "coordination_project"},
		{&s.leaseWaitText, m.LeaseWait, "lease_wait"},
	} {
		switch {
		case one.from.IsUnknown():
			s.unknown = append(s.unknown, one.name)
		case !one.from.IsNull():
			*one.to = one.from.ValueString()
		default:
			*one.to = os.Getenv(environmentPrefix + strings.ToUpper(one.name))
		}
	}
	if s.leaseWaitText != "" {
		wait, err := time.ParseDuration(s.leaseWaitText)
		if err != nil || wait < 0 {
			diags.AddAttributeError(path.Root("lease_wait"), "Invalid duration", fmt.Sprintf("lease_wait is %q: write a number and its unit, such as \"90s\" or \"2m\".", s.leaseWaitText))
		}
		s.leaseWait = wait
	}
	switch text := os.Getenv(environmentPrefix + "MAX_CONCURRENCY"); {
	case m.MaxConcurrency.IsUnknown():
		s.unknown = append(s.unknown, "max_concurrency")
	case !m.MaxConcurrency.IsNull():
		s.maxConcurrency = int(m.MaxConcurrency.ValueInt64())
	case text != "":
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			diags.AddAttributeError(path.Root("max_concurrency"), "Invalid max_concurrency", fmt.Sprintf("%sMAX_CONCURRENCY is %q: it must be a whole number above zero.", environmentPrefix, text))
		}
		s.maxConcurrency = n
	}
	if m.ImageRemotes.IsUnknown() {
		s.unknown = append(s.unknown, "image_remotes")
	}
	// What is written in the configuration beats what happens to be in the environment.
	switch {
	case argument.Written(m.Remote, m.Address):
		diags.AddAttributeError(path.Root("remote"), "Conflicting settings", "Set either address or remote: remote takes the address from the Incus CLI's own configuration.")
	case !m.Remote.IsNull():
		s.address = ""
	case !m.Address.IsNull():
		s.remote = ""
	case s.remote != "" && s.address != "":
		diags.AddError("Conflicting settings", fmt.Sprintf("Set either %sADDRESS or %sREMOTE: the latter takes the address from the Incus CLI's own configuration.", environmentPrefix, environmentPrefix))
	}
	return s, diags
}

// pem returns PEM text: the text itself, or the content of the file that it names. Errors don't repeat it, since it may
// be a key.
func pem(text string) (string, error) {
	if text == "" || strings.Contains(text, "-----BEGIN") {
		return text, nil
	}
	content, err := os.ReadFile(text)
	var failed *fs.PathError
	switch {
	case errors.As(err, &failed) && strings.ContainsAny(text, "\n\r"):
		return "", errors.New("it is neither PEM text nor a path")
	case errors.As(err, &failed):
		return "", fmt.Errorf("it is no PEM text, and reading it as a path failed: %w", err)
	case err != nil:
		return "", err
	case !strings.Contains(string(content), "-----BEGIN"):
		return "", fmt.Errorf("the file %s holds no PEM text", text)
	}
	return string(content), nil
}

// pinText is pem, and passes a fingerprint on: 64 hexadecimal digits, with or without colons.
func pinText(text string) (string, error) {
	digits := strings.ReplaceAll(text, ":", "")
	if len(digits) == 64 && strings.Trim(strings.ToLower(digits), "0123456789abcdef") == "" {
		return text, nil
	}
	return pem(text)
}
