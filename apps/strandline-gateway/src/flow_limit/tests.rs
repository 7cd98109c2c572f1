use std::time::Duration;

use super::*;
use crate::clock::now;

const MOST: FlowsMax = FlowsMax { open: 16, per_sec: 100 };

/// Sockets that are flooded leave room for others.
#[test]
fn sockets_leave_room_for_others() {
    let limit = Arc::<FlowLimit>::default();
    let fill = || {
        let mut own = Vec::new();
        while let Some(flow) = limit.take_beside(own.len(), MOST) {
            own.push(flow);
        }
        own
    };
    let (first, second) = (fill(), fill());
    assert_eq!((first.len(), second.len()), (12, 3));
    // One that has given way is counted no longer, also while it ends.
    first[0].slot().release();
    assert!(limit.take_beside(first.len() - 1, FlowsMax { open: 20, ..MOST }).is_some());
    drop((first, second));
    assert!(!limit.is_used());
}

#[test]
fn flows_of_a_peer_are_limited() {
    let limit = Arc::<FlowLimit>::default();
    let open: Vec<_> = std::iter::from_fn(|| limit.take(MOST)).collect();
    assert_eq!(open.len(), 16);
}

#[test]
fn new_flows_have_a_rate() {
    let (limit, begun) = (FlowLimit::default(), now());
    let come = |secs| {
        let now = begun + Duration::from_secs(secs);
        (0..200).filter(|_| limit.may_come(MOST, now)).count()
    };
    assert_eq!([come(0), come(0), come(1), come(9)], [100, 0, 100, 100]);
}

#[test]
fn another_flow_needs_the_ends_of_several() {
    for open in 0..20_u32 {
        for others in 0..20_u32 {
            for own in 0..20_usize {
                let (limit, most) = (Arc::<FlowLimit>::default(), FlowsMax { open, per_sec: 1 });
                let any = FlowsMax { open: u32::MAX, per_sec: 1 };
                let mut flows: Vec<_> =
                    (0..others as usize + own).map(|_| limit.take(any).unwrap()).collect();
                let lacks = limit.lacks(own, most);
                for left in (0..=lacks.min(own)).rev() {
                    let fits = limit.take_beside(own - (lacks.min(own) - left), most).is_some();
                    assert_eq!(
                        fits,
                        left == 0 && lacks <= own,
                        "{own} and {others} of {open}: {lacks}, {left}"
                    );
                    drop(flows.pop());
                }
            }
        }
    }
}
