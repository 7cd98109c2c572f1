//! A UDP address that processes have one after another, and for a while together.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use socket2::Socket;

use crate::filter::{self, Sockets};
use crate::steering::{GENERATION_MASK, PLACES_MAX, Steering};
use crate::{OpenError, UdpCarrier, UdpOptions};

/// The sockets at a UDP address that several processes share: each process is a *generation*, whose number
/// its verification tags and connection IDs have, so that the kernel gives each datagram to its process.
/// INITs, and all else that begins something new, go to the newest generation.
///
/// The sockets of a group are numbered by the kernel, and the numbers change when one is closed. Therefore
/// all processes keep all of them: a new process gets their descriptors ([`descriptors`](Self::descriptors))
/// with their [`owners`](Self::owners), and takes over those whose process has ended.
#[derive(Debug)]
pub struct UdpGroup {
    address: SocketAddr,
    options: UdpOptions,
    members: Vec<Member>,
    /// The rule of this process's generation.
    steering: Option<Steering>,
}

/// The generation and the place that a socket belongs to; `None` while its process has ended.
pub type Owner = Option<(u8, u16)>;

#[derive(Debug)]
struct Member {
    socket: Socket,
    owner: Owner,
}

impl UdpGroup {
    /// Opens the first socket at an address. Only processes of the same user can join the group.
    ///
    /// # Errors
    /// As [`UdpCarrier::bind`].
    pub fn bind(address: SocketAddr, options: &UdpOptions) -> Result<Self, OpenError> {
        let first = UdpCarrier::bind(address, &UdpOptions { reuse_port: false, ..options.clone() })?;
        first.share_port()?;
        let (address, socket) = first.into_parts();
        let members = vec![Member { socket, owner: None }];
        Ok(Self { address, options: options.clone(), members, steering: None })
    }

    /// Takes over a group of which another process has sent the descriptors and owners, in their order.
    /// `None` if there is none, or they are no sockets.
    #[must_use]
    pub fn adopt(members: Vec<(OwnedFd, Owner)>, options: &UdpOptions) -> Option<Self> {
        let as_member = |(descriptor, owner)| Member { socket: Socket::from(descriptor), owner };
        let members: Vec<Member> = members.into_iter().map(as_member).collect();
        let address = members.first()?.socket.local_addr().ok()?.as_socket()?;
        Some(Self { address, options: options.clone(), members, steering: None })
    }

    /// Returns the address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Returns the descriptors of all sockets, in the kernel's order.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.members.iter().map(|member| member.socket.as_fd())
    }

    /// Returns the owner of each socket, in the same order.
    pub fn owners(&self) -> impl Iterator<Item = Owner> {
        self.members.iter().map(|member| member.owner)
    }

    /// Opens sockets for a new generation with as many places as the rule has, and returns them with their rule.
    ///
    /// # Errors
    /// If a socket can't be opened, or there are as many generations as there can be.
    pub fn join(&mut self, steering: Steering) -> Result<(Vec<UdpCarrier>, Steering), OpenError> {
        let is_free = |generation: &u8| self.count(*generation) == 0;
        let Some(generation) = (0..=GENERATION_MASK as u8).find(is_free) else {
            return Err(OpenError::of_option(std::io::Error::other(
                "three processes of before still have connections at this address",
            )));
        };
        let steering = steering.of_generation(generation);
        for place in 0..steering.places().min(PLACES_MAX) {
            let member = match self.members.iter_mut().find(|member| member.owner.is_none()) {
                Some(free) => free,
                None => {
                    let options = UdpOptions { reuse_port: true, ..self.options.clone() };
                    let (_, socket) = UdpCarrier::bind(self.address, &options)?.into_parts();
                    self.members.push(Member { socket, owner: None });
                    let Some(last) = self.members.last_mut() else { continue };
                    last
                }
            };
            member.owner = Some((generation, place));
        }
        let mut own: Vec<(u16, &Socket)> = Vec::new();
        own.extend(self.members.iter().filter_map(|member| match member.owner {
            Some((of, place)) if of == generation => Some((place, &member.socket)),
            _ => None,
        }));
        own.sort_unstable_by_key(|(place, _)| *place);
        let carrier = |(_, socket): &(u16, &Socket)| {
            let socket = socket.try_clone().map_err(OpenError::of_option)?;
            UdpCarrier::of_socket(socket, self.address, &self.options)
        };
        let carriers = own.iter().map(carrier).collect::<Result<_, _>>()?;
        self.steering = Some(steering.clone());
        Ok((carriers, steering))
    }

    /// Makes the generation of this process the newest one: from now on everything new comes to it. Call it
    /// again whenever a generation has [ended](Self::release), or its successor has failed.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn lead(&self) -> Result<(), OpenError> {
        let (Some(steering), [first, _, ..]) = (&self.steering, self.members.as_slice()) else {
            // A single socket gets everything. The kernel makes a group of it once a second one is bound.
            return Ok(());
        };
        let own = steering.generation().unwrap_or(0);
        let others: Vec<Sockets> = (0..=GENERATION_MASK as u8)
            .filter(|other| *other != own && self.count(*other) > 0)
            .map(|other| self.sockets(other))
            .collect();
        let attached =
            filter::attach_generations(first.socket.as_fd(), steering, &self.sockets(own), &others);
        attached.map_err(OpenError::of_option)
    }

    /// Notes that the process of a generation has ended: its sockets are free.
    pub fn release(&mut self, generation: u8) {
        let is_of_it = |member: &&mut Member| member.owner.is_some_and(|(of, _)| of == generation);
        self.members.iter_mut().filter(is_of_it).for_each(|member| member.owner = None);
    }

    /// Returns the generation of this process.
    #[must_use]
    pub fn generation(&self) -> Option<u8> {
        self.steering.as_ref().and_then(Steering::generation)
    }

    fn count(&self, generation: u8) -> usize {
        self.members.iter().filter(|member| member.owner.is_some_and(|(of, _)| of == generation)).count()
    }

    fn sockets(&self, generation: u8) -> Sockets {
        let mut by_place: Vec<(u16, u32)> = (0..)
            .zip(&self.members)
            .filter_map(|(index, member)| match member.owner {
                Some((of, place)) if of == generation => Some((place, index)),
                _ => None,
            })
            .collect();
        by_place.sort_unstable();
        Sockets { generation, by_place: by_place.into_iter().map(|(_, index)| index).collect() }
    }
}
