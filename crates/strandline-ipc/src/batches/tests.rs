use std::os::unix::net::UnixDatagram;

use super::*;

fn pair() -> (Rc<Outbox>, Inbox) {
    let (one, other) = UnixDatagram::pair().unwrap();
    for socket in [&one, &other] {
        socket.set_nonblocking(true).unwrap();
    }
    (Outbox::new(one.into()).unwrap(), Inbox::new(other.into(), 256 << 10).unwrap())
}

async fn taken(inbox: &Inbox, bytes: usize) -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    while all.iter().map(Vec::len).sum::<usize>() < bytes {
        inbox.readable().await.unwrap();
        inbox.take(|batch| all.push(batch.to_vec()));
    }
    all
}

#[tokio::test]
async fn messages_are_gathered_until_they_are_flushed() {
    let (outbox, inbox) = pair();
    assert!(outbox.push(b"one") && outbox.push(b"two"));
    assert!(!inbox.take(|_| panic!("nothing was flushed")));
    outbox.flush();
    assert_eq!(taken(&inbox, 6).await, [b"onetwo"]);
    // A long one goes alone.
    assert!(outbox.push(b"x") && outbox.push(&vec![1; TOGETHER]));
    outbox.flush();
    assert_eq!(taken(&inbox, TOGETHER + 1).await.iter().map(Vec::len).collect::<Vec<_>>(), [1, TOGETHER]);
}

#[tokio::test]
async fn batches_wait_for_room_in_order() {
    let (outbox, inbox) = pair();
    let mut count = 0u32;
    while outbox.push(&count.to_le_bytes().repeat(TOGETHER / 8)) {
        outbox.flush();
        count += 1;
    }
    assert!(outbox.waiting_bytes.get() > WAITING_MAX);
    let work = tokio::task::LocalSet::new();
    work.spawn_local(Rc::clone(&outbox).run());
    let received = work.run_until(taken(&inbox, count as usize * (TOGETHER / 2))).await;
    let first = |batch: &Vec<u8>| u32::from_le_bytes(*batch.first_chunk().unwrap());
    assert!(received.iter().map(first).eq(0..count));
    assert_eq!(outbox.waiting_bytes.get(), 0);
}
