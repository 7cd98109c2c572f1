#![allow(missing_docs, clippy::all, clippy::print_stdout, clippy::disallowed_methods, clippy::unwrap_used)]
use std::sync::Arc; use std::time::Instant; use dimpl::*;
fn drain(d: &mut Dtls, out: &mut Vec<Vec<u8>>) -> bool { let mut b=[0u8;2048]; let mut c=false; loop { match d.poll_output(&mut b) { Output::Packet(p)=>out.push(p.to_vec()), Output::Connected=>c=true, Output::Timeout(_)=>return c, _=>{} } } }
fn main(){
  let k = rcgen::generate_simple_self_signed(vec![]).unwrap();
  let cert = DtlsCertificate{certificate:k.cert.der().to_vec(), private_key:k.signing_key.serialize_der()};
  let cfg = Arc::new(Config::builder().with_crypto_provider(strandline_dtls::provider::ring_provider()).use_server_cookie(false).build().unwrap());
  let now=Instant::now();
  let mut c=Dtls::new_13(cfg.clone(),cert.clone(),now); c.set_active(true); let mut s=Dtls::new_13(cfg,cert,now);
  c.handle_timeout(now).unwrap(); s.handle_timeout(now).unwrap();
  let t=Instant::now();
  let mut up=vec![];let mut ok=(false,false);
  for _ in 0..10 { ok.0|=drain(&mut c,&mut up); for p in up.drain(..){s.handle_packet(&p).unwrap();} let mut down=vec![]; ok.1|=drain(&mut s,&mut down); for p in down.drain(..){c.handle_packet(&p).unwrap();} if ok==(true,true){break} }
  println!("handshake {:?} {:?}", ok, t.elapsed());
  let data=vec![7u8;1400]; let mut b=vec![0u8;2048]; let n=400_000u64;
  let mut pk: Vec<Vec<u8>>=Vec::new(); let (mut te,mut td)=(0u128,0u128); let mut got=0u64;
  for _ in 0..n/100 { let t=Instant::now();
    for _ in 0..100 { c.send_application_data(&data).unwrap(); loop { match c.poll_output(&mut b){Output::Packet(p)=>pk.push(p.to_vec()),_=>break} } }
    te+=t.elapsed().as_nanos(); let t=Instant::now();
    for p in pk.drain(..){ s.handle_packet(&p).unwrap(); loop { match s.poll_output(&mut b){Output::ApplicationData(_)=>got+=1,_=>break} } }
    td+=t.elapsed().as_nanos(); }
  println!("enc {} ns = {:.2} Gbit/s; dec {} ns = {:.2} Gbit/s, got {}", te/n as u128, 11200.0*n as f64/te as f64, td/n as u128, 11200.0*n as f64/td as f64, got);
  // ring alone
  let key=ring::aead::LessSafeKey::new(ring::aead::UnboundKey::new(&ring::aead::AES_128_GCM,&[1;16]).unwrap());
  let mut d=vec![7u8;1400]; let t=Instant::now(); for i in 0..n { let mut x=[0;12]; x[..8].copy_from_slice(&i.to_be_bytes()); key.seal_in_place_separate_tag(ring::aead::Nonce::assume_unique_for_key(x), ring::aead::Aad::from([0u8;5]), &mut d).unwrap(); }
  let e=t.elapsed().as_nanos(); println!("ring aes128gcm 1400 B: {} ns = {:.2} Gbit/s", e/n as u128, 11200.0*n as f64/e as f64);
}
