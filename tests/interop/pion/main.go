// A peer on pion/sctp for the interop tests. Each UDP datagram is one SCTP packet, which is the framing of UDP
// encapsulation; pion uses SCTP port 5000 on both sides.
//
//	pion-peer echo|sink -u PORT                 wait for one association
//	pion-peer send|call -u PORT -U PEERPORT     connect and send; `call` waits for the echo of each message
//
//	-n COUNT  messages   -l LENGTH  bytes of each   -s STREAMS  number of streams   -r  unordered
//	-x        streams are reset: the end of one is that of the stream, which is reset in the other direction, too
//	-y        closes the streams once all messages have come back (with -x)
//	-f FIRST  the streams are FIRST, FIRST + 2 and so on, instead of 0, 1 and so on
//	-R COUNT  give a message up after so many retransmissions    -L MS  after its lifetime (RFC 3758)
//	-v        a line for each message received                   -w     sends once told to    -e  a client echoes
//
// Lines on stdin: abort, shutdown, quit (at once, without notifying the peer), go (sends on streams of its own).
// Lines on stdout: READY, UP, CLOSED, BAD, RX, SENT, ECHOED, RESET (with -x). Message k has PPID k+1 and byte i of it is
// (k*31 + i*7) mod 256; `sink` and `call` check that. (pion treats PPID 0 as unspecified.)
package main

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pion/logging"
	"github.com/pion/sctp"
)

const messageMax = 8 << 20

// conn is a UDP socket with one peer: the given one, or the first that sends.
type conn struct {
	*net.UDPConn
	mu   sync.Mutex
	peer *net.UDPAddr
}

func (c *conn) Read(b []byte) (int, error) {
	n, from, err := c.ReadFromUDP(b)
	if err == nil {
		c.mu.Lock()
		if c.peer == nil {
			c.peer = from
		}
		c.mu.Unlock()
	}
	return n, err
}

func (c *conn) Write(b []byte) (int, error) {
	c.mu.Lock()
	peer := c.peer
	c.mu.Unlock()
	if peer == nil {
		return 0, fmt.Errorf("no peer yet")
	}
	n, err := c.WriteToUDP(b, peer)
	if err != nil {
		// A refused datagram counts as lost.
		return len(b), nil
	}
	return n, nil
}

func (c *conn) RemoteAddr() net.Addr {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peer
}

var (
	mode      string
	count     = flag.Int("n", 1, "messages")
	length    = flag.Int("l", 100, "bytes of each message")
	streams   = flag.Int("s", 1, "streams")
	unordered = flag.Bool("r", false, "unordered")
	resets    = flag.Bool("x", false, "streams are reset")
	closes    = flag.Bool("y", false, "streams are closed")
	first     = flag.Int("f", -1, "first of every second stream")
	rtxMax    = flag.Int("R", -1, "retransmissions of a message")
	lifetime  = flag.Int("L", -1, "lifetime of a message in milliseconds")
	verbose   = flag.Bool("v", false, "a line for each message received")
	waits     = flag.Bool("w", false, "sends once told to")
	echoes    = flag.Bool("e", false, "a client echoes")
	port      = flag.Int("u", 0, "own UDP port")
	peerPort  = flag.Int("U", 0, "the peer's UDP port")
	echoed    int64
	arrived   = make(chan struct{}, 1)
	ended     = make(chan struct{})
	endOnce   sync.Once
)

func say(format string, args ...any) {
	fmt.Printf(format+"\n", args...)
}

func die(what string, err error) {
	fmt.Fprintf(os.Stderr, "pion-peer: %s: %v\n", what, err)
	os.Exit(1)
}

func fill(b []byte, k int) {
	for i := range b {
		b[i] = byte(k*31 + i*7)
	}
}

func matches(b []byte, k int) bool {
	for i := range b {
		if b[i] != byte(k*31+i*7) {
			return false
		}
	}
	return true
}

// limit sets the order and the reliability of a stream.
func limit(s *sctp.Stream) {
	switch {
	case *rtxMax >= 0:
		s.SetReliabilityParams(*unordered, sctp.ReliabilityTypeRexmit, uint32(*rtxMax))
	case *lifetime >= 0:
		s.SetReliabilityParams(*unordered, sctp.ReliabilityTypeTimed, uint32(*lifetime))
	default:
		s.SetReliabilityParams(*unordered, sctp.ReliabilityTypeReliable, 0)
	}
}

// serve handles the messages of one stream until it ends.
func serve(s *sctp.Stream) {
	b := make([]byte, messageMax)
	limit(s)
	for {
		n, ppid, err := s.ReadSCTP(b)
		if err != nil && *resets {
			say("RESET stream=%d", s.StreamIdentifier())
			// Fails once the association has ended.
			_ = s.Close()
			return
		}
		if err != nil {
			endOnce.Do(func() { say("CLOSED"); close(ended) })
			return
		}
		if *verbose {
			say("RX len=%d stream=%d ppid=%d", n, s.StreamIdentifier(), ppid)
		}
		if mode == "echo" || *echoes {
			if _, err := s.WriteSCTP(b[:n], ppid); err != nil {
				say("BAD cannot echo: %v", err)
			}
			continue
		}
		if !matches(b[:n], int(ppid)-1) {
			say("BAD content of message %d", int(ppid)-1)
		}
		if atomic.AddInt64(&echoed, 1) == int64(*count) && mode == "call" {
			say("ECHOED %d", *count)
		}
		select {
		case arrived <- struct{}{}:
		default:
		}
	}
}

func openStreams(a *sctp.Association) []*sctp.Stream {
	opened := make([]*sctp.Stream, *streams)
	for i := range opened {
		id := i
		if *first >= 0 {
			id = *first + 2*i
		}
		s, err := a.OpenStream(uint16(id), sctp.PayloadTypeWebRTCBinary)
		if err != nil {
			die("open stream", err)
		}
		limit(s)
		opened[i] = s
		if mode == "call" {
			go serve(s)
		}
	}
	return opened
}

func sendOn(opened []*sctp.Stream) bool {
	b := make([]byte, *length)
	for k := 0; k < *count; k++ {
		fill(b, k)
		if _, err := opened[k%*streams].WriteSCTP(b, sctp.PayloadProtocolIdentifier(k+1)); err != nil {
			say("BAD cannot send: %v", err)
			return false
		}
	}
	return true
}

// send sends the messages. With a limit it returns once each was acknowledged or given up: pion sends neither data nor
// FORWARD TSN after a shutdown has begun.
func send(a *sctp.Association) {
	if *count == 0 {
		say("SENT 0")
		return
	}
	before := atomic.LoadInt64(&echoed)
	opened := openStreams(a)
	if !sendOn(opened) {
		return
	}
	for _, s := range opened {
		for (*rtxMax >= 0 || *lifetime >= 0) && s.BufferedAmount() > 0 {
			time.Sleep(5 * time.Millisecond)
		}
	}
	for *closes && atomic.LoadInt64(&echoed) < before+int64(*count) {
		<-arrived
	}
	for _, s := range opened {
		if !*closes {
			continue
		}
		if err := s.Close(); err != nil {
			say("BAD cannot close: %v", err)
		}
	}
	say("SENT %d", *count)
}

func associate(c *conn) (*sctp.Association, error) {
	logs := logging.NewDefaultLoggerFactory()
	logs.Writer = os.Stderr
	config := sctp.Config{NetConn: c, LoggerFactory: logs, MaxReceiveBufferSize: 4 << 20, MaxMessageSize: messageMax}
	if mode == "send" || mode == "call" {
		return sctp.Client(config)
	}
	return sctp.Server(config)
}

func accept(a *sctp.Association) {
	for {
		s, err := a.AcceptStream()
		if err != nil {
			endOnce.Do(func() { say("CLOSED"); close(ended) })
			return
		}
		go serve(s)
	}
}

func main() {
	if len(os.Args) > 1 {
		mode = os.Args[1]
		_ = flag.CommandLine.Parse(os.Args[2:])
	}
	isClient := mode == "send" || mode == "call"
	if (!isClient && mode != "echo" && mode != "sink") || *port == 0 || isClient != (*peerPort != 0) {
		fmt.Fprintln(os.Stderr, "usage: pion-peer echo|sink|send|call [options]; they stand at the top of main.go")
		os.Exit(2)
	}
	loopback := net.IPv4(127, 0, 0, 1)
	socket, err := net.ListenUDP("udp4", &net.UDPAddr{IP: loopback, Port: *port})
	if err != nil {
		die("bind", err)
	}
	c := &conn{UDPConn: socket}
	if isClient {
		c.peer = &net.UDPAddr{IP: loopback, Port: *peerPort}
	}
	say("READY")
	var a *sctp.Association
	up := make(chan struct{})
	go func() {
		if a, err = associate(c); err != nil {
			die("associate", err)
		}
		say("UP")
		close(up)
		go accept(a)
		if isClient && !*waits {
			send(a)
		}
	}()
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "quit":
			os.Exit(0)
		case "go":
			<-up
			go send(a)
		case "abort":
			<-up
			a.Abort("asked to")
		case "shutdown":
			<-up
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			if err := a.Shutdown(ctx); err != nil {
				say("BAD shutdown: %v", err)
			}
			cancel()
		default:
			say("BAD no such command: %s", lines.Text())
		}
	}
}
