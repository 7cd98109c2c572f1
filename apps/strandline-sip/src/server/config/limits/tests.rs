use super::*;

fn read(text: &str) -> Result<TransactionLimits, String> {
    let table: Table = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut errors = ConfigErrors::default();
    let checked = check(&table, &mut errors);
    errors.finish().map(|()| checked.transactions).map_err(|error| error.to_string())
}

#[test]
fn transactions_are_limited_by_number_and_by_bytes() {
    assert_eq!(read(""), Ok(TransactionLimits::default()));
    let wanted = TransactionLimits { servers_max: 7, clients_max: 7, bytes_max: 2_000_000 };
    assert_eq!(read("transactions_max = 7\ntransactions_bytes_max = 2000000\n"), Ok(wanted));
    let told = read("transactions_bytes_max = 1048575").unwrap_err();
    assert_eq!(told, "limits.transactions_bytes_max: 1048575 is less than the minimum of 1048576");
}
