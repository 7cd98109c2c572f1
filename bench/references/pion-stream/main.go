// Throughput of pion/sctp over UDP encapsulation, for comparison in one run. Each UDP datagram is one SCTP packet, as
// everywhere with pion; it uses SCTP port 5000 on both sides.
//
//	pion-stream receive [options]              wait for one association, read its stream to the end, report
//	pion-stream send --to ADDRESS [options]    connect and send
//
//	--port PORT  UDP port of the receiver (9899)   --size BYTES  of each message   --seconds SECONDS
//
// Choices in its favour: packets as large as the link allows (its default is 1,228 bytes), 8 MB of receive buffer,
// UDP sockets of 4 MiB, a queue of up to 2 MB that is refilled once it is half empty (pion's own `BlockWrite` queues one
// message at a time), an atomic load for the peer's address instead of a lock.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

// mtu is the payload of a packet of 1,500 bytes: less the headers of IPv4 and UDP.
const mtu = 1472

// Maximum number of bytes that may wait to be acknowledged.
const queueMax = 2 << 20

var (
	to      = flag.String("to", "", "the receiver's address")
	port    = flag.Int("port", 9899, "UDP port of the receiver")
	size    = flag.Int("size", 8192, "bytes of each message")
	seconds = flag.Float64("seconds", 10, "how long to send")
)

func die(what string, err error) {
	fmt.Fprintf(os.Stderr, "pion-stream: %s: %v\n", what, err)
	os.Exit(1)
}

// conn is a UDP socket with one peer: the given one, or the first that sends.
type conn struct {
	*net.UDPConn
	peer atomic.Pointer[netip.AddrPort]
}

func (c *conn) Read(b []byte) (int, error) {
	n, from, err := c.ReadFromUDPAddrPort(b)
	if err == nil && c.peer.Load() == nil {
		c.peer.Store(&from)
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	peer := c.peer.Load()
	if peer == nil {
		return 0, errors.New("no peer yet")
	}
	if _, err := c.WriteToUDPAddrPort(b, *peer); errors.Is(err, net.ErrClosed) {
		return 0, err
	}
	// A refused datagram counts as lost.
	return len(b), nil
}

func (c *conn) RemoteAddr() net.Addr {
	if peer := c.peer.Load(); peer != nil {
		return net.UDPAddrFromAddrPort(*peer)
	}
	return nil
}

type report struct {
	Side       string  `json:"side"`
	Transport  string  `json:"transport"`
	Seconds    float64 `json:"seconds"`
	Bytes      int64   `json:"bytes"`
	Messages   int64   `json:"messages"`
	CPUUser    float64 `json:"cpu_user_seconds"`
	CPUSystem  float64 `json:"cpu_system_seconds"`
	begun      time.Time
	userBefore float64
	sysBefore  float64
}

func cpu() (user, system float64) {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		die("getrusage", err)
	}
	return time.Duration(usage.Utime.Nano()).Seconds(), time.Duration(usage.Stime.Nano()).Seconds()
}

func begin(side string) *report {
	r := &report{Side: side, Transport: "pion", begun: time.Now()}
	r.userBefore, r.sysBefore = cpu()
	return r
}

func (r *report) print() {
	r.Seconds = time.Since(r.begun).Seconds()
	user, system := cpu()
	r.CPUUser, r.CPUSystem = user-r.userBefore, system-r.sysBefore
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		die("reporting", err)
	}
}

func open(address *net.UDPAddr) *conn {
	socket, err := net.ListenUDP("udp4", address)
	if err != nil {
		die("bind", err)
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		die("the socket", err)
	}
	err = raw.Control(func(fd uintptr) {
		// As root beyond the system's limit, otherwise up to it.
		for _, option := range [][2]int{{syscall.SO_RCVBUFFORCE, syscall.SO_RCVBUF}, {syscall.SO_SNDBUFFORCE, syscall.SO_SNDBUF}} {
			if syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option[0], 4<<20) != nil {
				_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, option[1], 4<<20)
			}
		}
	})
	if err != nil {
		die("the socket", err)
	}
	return &conn{UDPConn: socket}
}

func config(c *conn) sctp.Config {
	logs := logging.NewDefaultLoggerFactory()
	logs.Writer = os.Stderr
	return sctp.Config{
		NetConn: c, LoggerFactory: logs, MTU: mtu,
		MaxReceiveBufferSize: 8 << 20, MaxMessageSize: 1 << 20,
	}
}

func receive() {
	c := open(&net.UDPAddr{Port: *port})
	association, err := sctp.Server(config(c))
	if err != nil {
		die("accepting", err)
	}
	stream, err := association.AcceptStream()
	if err != nil {
		die("accepting a stream", err)
	}
	report := begin("receiver")
	b := make([]byte, 1<<20)
	for {
		n, err := stream.Read(b)
		if err != nil {
			// The sender shuts down when all data has been acknowledged; pion reports that as an error as well.
			break
		}
		report.Bytes += int64(n)
		report.Messages++
	}
	report.print()
}

func send() {
	peer, err := netip.ParseAddr(*to)
	if err != nil {
		die("--to", err)
	}
	c := open(nil)
	address := netip.AddrPortFrom(peer, uint16(*port))
	c.peer.Store(&address)
	association, err := sctp.Client(config(c))
	if err != nil {
		die("connecting", err)
	}
	stream, err := association.OpenStream(1, sctp.PayloadTypeWebRTCBinary)
	if err != nil {
		die("opening a stream", err)
	}
	data := make([]byte, *size)
	for i := range data {
		data[i] = byte(i)
	}
	room := make(chan struct{}, 1)
	stream.SetBufferedAmountLowThreshold(queueMax / 2)
	stream.OnBufferedAmountLow(func() {
		select {
		case room <- struct{}{}:
		default:
		}
	})
	report := begin("sender")
	end := report.begun.Add(time.Duration(*seconds * float64(time.Second)))
	for report.Messages&63 != 0 || time.Now().Before(end) {
		for stream.BufferedAmount() > queueMax {
			select {
			case <-room:
			// The level may have fallen between the check and the wait.
			case <-time.After(10 * time.Millisecond):
			}
		}
		if _, err := stream.Write(data); err != nil {
			die("sending", err)
		}
		report.Bytes += int64(len(data))
		report.Messages++
	}
	// Queued data is sent first.
	patience, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := association.Shutdown(patience); err != nil {
		fmt.Fprintln(os.Stderr, "pion-stream: shutting down:", err)
	}
	report.print()
}

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: pion-stream receive|send [options]; they stand at the top of main.go")
		os.Exit(2)
	}
	_ = flag.CommandLine.Parse(os.Args[2:])
	switch os.Args[1] {
	case "receive":
		receive()
	case "send":
		send()
	}
}
