use super::*;

fn datagram(bytes: &[u8]) -> Datagram<'_> {
    Datagram { source: SocketAddr::from(([192, 0, 2, 1], 9)), destination: None, bytes, ecn: 0 }
}

fn lengths(mail: &Mail) -> Vec<usize> {
    let len = |item| match item {
        Item::Datagram { datagram, .. } => datagram.bytes.len(),
        Item::Icmp(error) => error.quoted.len(),
    };
    mail.iter().map(len).collect()
}

#[test]
fn letters_keep_order_and_wake_once() {
    let post = Post::new(2);
    post.register(1, Waker::noop());
    let (mut mail, mut woken) = (Mail::default(), Vec::new());
    for len in [3, 5] {
        mail.push_datagram(&datagram(&vec![0; len]), 1);
        post.deliver(0, 1, &mut mail, &mut woken);
        assert!(mail.is_empty());
    }
    let error =
        IcmpError { destination: datagram(&[]).source, kind: IcmpKind::HostUnreachable, quoted: &[7; 8] };
    post.broadcast(0, &error, &mut woken);
    assert_eq!(woken.len(), 1);
    assert!(!post.fetch(0, &mut mail) && post.fetch(1, &mut mail));
    assert_eq!(lengths(&mail), [3, 5, 8]);
    assert!(!post.fetch(1, &mut mail));
    assert_eq!((post.traffic(0).sent, post.traffic(1).received), (3, 3));
}

#[test]
fn full_or_closed_mailbox_drops_letters() {
    let post = Post::new(2);
    let (mut mail, mut woken) = (Mail::default(), Vec::new());
    for _ in 0..100 {
        mail.push_datagram(&datagram(&[0; 60_000]), 0);
        post.deliver(0, 1, &mut mail, &mut woken);
    }
    assert_eq!(post.traffic(1).lost, 100 - 17);
    post.close(1);
    mail.push_datagram(&datagram(&[0; 10]), 0);
    post.deliver(0, 1, &mut mail, &mut woken);
    assert_eq!(post.traffic(1).lost, 100 - 17 + 1);
}
