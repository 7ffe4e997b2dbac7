package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/homelabops/terraform-provider-homelabops/internal/lab"
)

const clusterUsage = `usage: lab cluster up              bring the cluster up; heal one that is up
       lab cluster down            remove it with all that belongs to it (-force: although tests are attached)
       lab cluster status          say what is up; fails where not all of it is
       lab cluster env [MEMBER]    print shell lines that point the incus CLI and the provider at a member
       lab cluster image NAME ...  build and import these images
       lab cluster join NAME       add a member
       lab cluster remove NAME     remove one that was added
       lab cluster fault kill      MEMBER   kill its daemon; its instances keep running
                         freeze    MEMBER   stop its daemon: connections are accepted, nothing answers
                         thaw      MEMBER   end that
                         cut       MEMBER   take its network away
                         heal      MEMBER   end that
                         crash     MEMBER   kill its daemon and its instances
                         start     MEMBER   end all of these, and wait until the others see it
                         evacuate  MEMBER   move its instances to others
                         restore   MEMBER   end that

The cluster lives in ` + "$" + lab.EnvCluster + `, by default /var/tmp/homelabops-cluster.
`

// cluster runs a command on the cluster.
func cluster(ctx context.Context, arguments []string) error {
	if len(arguments) == 0 {
		arguments = []string{""}
	}
	dir := lab.ClusterDir()
	verb, arguments := arguments[0], arguments[1:]
	flags := flag.NewFlagSet("lab cluster "+verb, flag.ExitOnError)
	flags.Usage = func() { fmt.Fprint(os.Stderr, clusterUsage) }
	force := flags.Bool("force", false, "take the cluster down although tests are attached to it")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	arguments = flags.Args()
	switch {
	case verb == "up":
		return clusterUp(ctx, dir)
	case verb == "down":
		return lab.ClusterDown(ctx, dir, *force)
	case verb == "status":
		return clusterStatus(ctx, dir)
	case verb == "env" && len(arguments) <= 1:
		return clusterEnvironment(dir, append(arguments, lab.FoundingMembers[0])[0])
	case verb == "image" && len(arguments) > 0:
		up, err := lab.OpenCluster(dir)
		if err != nil {
			return err
		}
		for _, alias := range arguments {
			if err := up.Import(ctx, alias, os.Stderr); err != nil {
				return err
			}
		}
		return nil
	case (verb == "join" || verb == "remove") && len(arguments) == 1:
		up, err := lab.OpenAilingCluster(dir)
		if err != nil {
			return err
		}
		if verb == "remove" {
			return up.Remove(ctx, arguments[0])
		}
		_, err = up.Join(ctx, arguments[0])
		return err
	case verb == "fault" && len(arguments) == 2:
		return fault(ctx, dir, arguments[0], arguments[1])
	default:
		fmt.Fprint(os.Stderr, clusterUsage)
		os.Exit(2)
		return nil
	}
}

func clusterUp(ctx context.Context, dir string) error {
	start := time.Now()
	if _, err := lab.ClusterUp(ctx, dir, os.Stderr); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "lab: cluster up in %s (%.1f s)\n", dir, time.Since(start).Seconds())
	return nil
}

func clusterStatus(ctx context.Context, dir string) error {
	up, err := lab.OpenAilingCluster(dir)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 45*time.Second)
	defer cancel()
	record := up.Record()
	fmt.Printf("state directory   %s\nIncus             %s, pools of driver %s\ninstances         %s\n",
		up.Dir(), record.IncusVersion, record.PoolDriver, record.Subnet.Bridge())
	statuses, err := up.Statuses(ctx)
	for _, member := range up.Members() {
		status := lab.MemberStatus{Status: "status unknown"}
		for _, one := range statuses {
			if one.Name == member.Name {
				status = one
			}
		}
		fmt.Printf("%-17s %s, %s, pid %d, %s, groups %s, log %s\n", member.Name, member.Condition(), status.Status,
			member.Server.Pid(), up.Address(member.Name), strings.Join(status.Groups, " "), member.Server.Log)
	}
	if err != nil {
		return err
	}
	_, err = lab.OpenCluster(dir)
	return err
}

func clusterEnvironment(dir, name string) error {
	up, err := lab.OpenAilingCluster(dir)
	if err != nil {
		return err
	}
	member, err := up.Member(name)
	if err != nil {
		return err
	}
	printEnvironment([]variable{
		{"INCUS_DIR", member.Server.Dir},
		{"INCUS_CONF", member.Server.CLI},
		{"HOMELABOPS_ADDRESS", up.Address(name)},
		{"HOMELABOPS_CLIENT_CERTIFICATE", up.ClientCertificatePath()},
		{"HOMELABOPS_CLIENT_KEY", up.ClientKeyPath()},
		{"HOMELABOPS_SERVER_CERTIFICATE", up.ServerCertificatePath()},
	})
	return nil
}

func fault(ctx context.Context, dir, name, member string) error {
	up, err := lab.OpenAilingCluster(dir)
	if err != nil {
		return err
	}
	withContext := func(do func(context.Context, string) error) func(string) error {
		return func(member string) error { return do(ctx, member) }
	}
	do, known := map[string]func(string) error{
		"kill": up.Kill, "freeze": up.Freeze, "thaw": up.Thaw, "crash": up.Crash,
		"cut": withContext(up.Cut), "heal": withContext(up.Heal), "start": withContext(up.Start),
		"evacuate": withContext(up.Evacuate), "restore": withContext(up.Restore),
	}[name]
	if !known {
		return fmt.Errorf("no fault is called %q", name)
	}
	return do(member)
}
