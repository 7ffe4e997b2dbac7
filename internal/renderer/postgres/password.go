package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/homelabops/terraform-provider-homelabops/internal/renderer"
)

// errPassword: the cluster was made with another password.
var errPassword = errors.New("the secret replication is not the password that the role " + replicationUser + " has in the database, so that no member could copy its data: " +
	"bring that one in secrets_wo (a value that is made anew for each run can't be it), or change the role first (ALTER ROLE). " +
	"Volumes of an App that never got healthy may hold a database without that role: delete those")

// admitted asks the leader, as the new member will, for a connection of the replication. Only a refused password is an error:
// all else the gate tells, and some of it passes. A cluster that begins has a leader only once it has its roles; one that goes
// on with the volumes of an earlier one has that one's passwords.
func (r Renderer) admitted(ctx context.Context, c renderer.Cluster) error {
	v, _, err := lookAround(ctx, c.App, c.Look, targets(c.Peers, c.Self.Instance))
	if err != nil {
		return nil // nobody to ask: the next step says so where that matters
	}
	leader, err := v.leader()
	if err != nil {
		return nil
	}
	const ask = `IFS= read -r PGPASSWORD; export PGPASSWORD; LC_ALL=C exec "$1/psql" -XAtwc IDENTIFY_SYSTEM "host=$2 port=$3 user=$4 replication=1 connect_timeout=5"`
	port, _ := ports(c.App)
	command := []string{"sh", "-c", ask, "sh", c.App.Params.String("bin_dir"), leader.Host, strconv.Itoa(port), replicationUser}
	self := inside{c.Machine, c.Self.Instance}
	if _, err := self.run(ctx, "ask "+leader.Name+" for a connection", command, c.App.Secrets["replication"]+"\n"); err != nil && strings.Contains(err.Error(), "password authentication failed") {
		return fmt.Errorf("%w (%w)", errPassword, err)
	}
	return nil
}
