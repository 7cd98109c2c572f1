//! Requests of an application, and the ASCONF chunks that carry them (sections 5.1 and 5.3).

use super::*;

#[test]
fn added_address_carries_data_after_its_confirmation() {
    let (mut pair, client, server) = established();
    let new = new_address(CLIENT, 0);
    gain(&mut pair, CLIENT, new);
    let add = AddressRequest::Add(new.ip());
    request(&mut pair, CLIENT, client, &[add]).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair, CLIENT), [(add, AddressOutcome::Performed)]);
    assert_eq!(changes(&pair, SERVER)[0], (new, PathChange::Added));
    pair.pass(Duration::from_secs(1));
    assert!(changes(&pair, SERVER).contains(&(new, PathChange::Confirmed)));
    let delete = AddressRequest::Delete(address(CLIENT, 0).ip());
    request(&mut pair, CLIENT, client, &[delete]).unwrap();
    pair.run();
    assert_eq!(outcomes(&pair, CLIENT)[1], (delete, AddressOutcome::Performed));
    assert_eq!(paths(&pair, SERVER, server), [(new, Reachability::Active)]);
    lose(&mut pair, CLIENT, address(CLIENT, 0));
    for (host, id, to, there) in [(CLIENT, client, SERVER, server), (SERVER, server, CLIENT, client)] {
        pair.send(host, id, 0, b"over the new address");
        pair.pass(Duration::from_secs(1));
        assert_eq!(pair.recv(to, there).unwrap().data, "over the new address");
    }
}
