#include "collective/star.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { ADDRESSES = 16, SECRET_BYTES = 16 };
static const double try_seconds = 2;    /* for one address, or for one that connects to say who it is */
static const double answer_seconds = 5; /* rank 0 may be busy with others */

/* Records that rank 0 exchanges with ranks: the invitation says where it listens, what a rank must send it
 * (the first half of the secret), and what it answers (the second). */
struct invitation {
  unsigned char secret[2 * SECRET_BYTES];
  uint16_t port;                               /* 0: it does not listen */
  char addresses[ADDRESSES][INET6_ADDRSTRLEN]; /* as numbers; "": no more */
};

struct hello {
  unsigned char secret[SECRET_BYTES];
  int32_t rank;
};

/* Waits until the socket can be read or written (`events`); false: not before the moment `until`. */
static bool wait_for(int socket, short events, double until) {
  struct pollfd one = {.fd = socket, .events = events};
  for (;;) {
    const double left = until - clock_seconds();
    const int ready = poll(&one, 1, left > 0 ? (int)(left * 1000) + 1 : 0);
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

static bool read_whole(int socket, void *data, size_t bytes, double until) {
  for (size_t got = 0; got < bytes;) {
    if (!wait_for(socket, POLLIN, until)) return false;
    const ssize_t n = recv(socket, (char *)data + got, bytes - got, 0);
    if (n < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (n <= 0) return false;
    got += (size_t)n;
  }
  return true;
}

/* For a few bytes, which fit the socket's memory. */
static bool write_whole(int socket, const void *data, size_t bytes) {
  return send(socket, data, bytes, MSG_NOSIGNAL) == (ssize_t)bytes;
}

static void set_options(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  fcntl(socket, F_SETFL, fcntl(socket, F_GETFL) | O_NONBLOCK);
}

/* Adds the addresses of this machine's interfaces, of loopback ones or of all others. */
static void list_addresses(struct invitation *invitation, const struct ifaddrs *all, bool loopback,
                           int *count) {
  for (const struct ifaddrs *i = all; i != NULL && *count < ADDRESSES; i = i->ifa_next) {
    const bool up = (i->ifa_flags & IFF_UP) != 0, is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
    if (i->ifa_addr == NULL || !up || is_loopback != loopback) continue;
    char *text = invitation->addresses[*count];
    if (i->ifa_addr->sa_family == AF_INET)
      inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr, text,
                INET6_ADDRSTRLEN);
    else if (i->ifa_addr->sa_family == AF_INET6) {
      const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;
      if (IN6_IS_ADDR_LINKLOCAL(six)) continue; /* means nothing elsewhere */
      inet_ntop(AF_INET6, six, text, INET6_ADDRSTRLEN);
    } else
      continue;
    (*count)++;
  }
}

union address {
  struct sockaddr any;
  struct sockaddr_in four;
  struct sockaddr_in6 six;
};

/* A socket that listens at an address and a free port, or -1. */
static int listen_at(union address address, socklen_t bytes, uint16_t *port) {
  const int off = 0, family = address.any.sa_family, listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (listener < 0) return -1;
  if (family == AF_INET6) setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (bind(listener, &address.any, bytes) != 0 || listen(listener, SOMAXCONN) != 0 ||
      getsockname(listener, &address.any, &bytes) != 0) {
    close(listener);
    return -1;
  }
  *port = ntohs(family == AF_INET6 ? address.six.sin6_port : address.four.sin_port);
  return listener;
}

/* Listens at every address of both families, or of the older where there is no other. */
static int listen_anywhere(uint16_t *port) {
  const union address six = {.six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any}};
  const union address four = {.four = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)}};
  const int listener = listen_at(six, sizeof six.six, port);
  return listener >= 0 ? listener : listen_at(four, sizeof four.four, port);
}

static neap_status invite(struct invitation *invitation, int *listener) {
  struct ifaddrs *all = NULL;
  int count = 0;
  *listener = listen_anywhere(&invitation->port);
  RETURN_IF(*listener < 0, NEAP_IO_FAILED, "heartbeat: the system does not allow this process to listen: %s",
            strerror(errno));
  RETURN_IF(getrandom(invitation->secret, sizeof invitation->secret, 0) != sizeof invitation->secret,
            NEAP_IO_FAILED, "heartbeat: the system provides no random bytes: %s", strerror(errno));
  RETURN_IF(getifaddrs(&all) != 0, NEAP_IO_FAILED, "heartbeat: the system does not list its addresses: %s",
            strerror(errno));
  list_addresses(invitation, all, false, &count);
  list_addresses(invitation, all, true, &count);
  freeifaddrs(all);
  return NEAP_OK;
}

/* Returns true if the other end is a missing rank and knows that it was admitted; `*rank` is its number. */
static bool is_missing_rank(int s, const struct invitation *invitation, int size, const int *sockets,
                            int *rank) {
  struct hello hello;
  char done;
  const double until = clock_seconds() + try_seconds;
  if (!read_whole(s, &hello, sizeof hello, until)) return false;
  if (memcmp(hello.secret, invitation->secret, SECRET_BYTES) != 0) return false;
  *rank = hello.rank;
  return *rank > 0 && *rank < size && sockets[*rank] < 0 &&
         write_whole(s, invitation->secret + SECRET_BYTES, SECRET_BYTES) && read_whole(s, &done, 1, until);
}

/* At rank 0: takes one connection, where it is a rank's. */
static void admit(int listener, const struct invitation *invitation, int size, int *sockets, int *missing) {
  int rank;
  const int s = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
  if (s < 0) return;
  set_options(s);
  if (!is_missing_rank(s, invitation, size, sockets, &rank)) {
    close(s);
    return;
  }
  sockets[rank] = s;
  (*missing)--;
}

static neap_status admit_all(int listener, const struct invitation *invitation, int size, double until,
                             int *sockets) {
  int missing = size - 1, first = 1;
  while (missing > 0 && wait_for(listener, POLLIN, until))
    admit(listener, invitation, size, sockets, &missing);
  while (missing > 0 && sockets[first] >= 0) first++;
  RETURN_IF(missing > 0, NEAP_IO_FAILED,
            "heartbeat: rank %d did not connect to rank 0 by TCP; does a firewall separate the machines?",
            first);
  return NEAP_OK;
}

/* Returns true if rank 0 is at the other end and knows that this rank is at this one. */
static bool is_rank_zero(int s, const struct invitation *invitation, int rank) {
  struct hello hello = {.rank = rank};
  unsigned char answer[SECRET_BYTES];
  memcpy(hello.secret, invitation->secret, SECRET_BYTES);
  return write_whole(s, &hello, sizeof hello) &&
         read_whole(s, answer, sizeof answer, clock_seconds() + answer_seconds) &&
         memcmp(answer, invitation->secret + SECRET_BYTES, SECRET_BYTES) == 0 && write_whole(s, "", 1);
}

/* A socket to rank 0 at an address, or -1. */
static int try_address(const struct addrinfo *address, const struct invitation *invitation, int rank) {
  int error = 0;
  socklen_t length = sizeof error;
  const int s = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (s < 0) return -1;
  set_options(s);
  const bool begun = connect(s, address->ai_addr, address->ai_addrlen) == 0 || errno == EINPROGRESS;
  if (begun && wait_for(s, POLLOUT, clock_seconds() + try_seconds) &&
      getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0 &&
      is_rank_zero(s, invitation, rank))
    return s;
  close(s);
  return -1;
}

/* The socket to rank 0 at a name or number, or -1. */
static int try_host(const char *host, const struct invitation *invitation, int rank) {
  const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
  struct addrinfo *found = NULL;
  char port[8];
  int s = -1;
  snprintf(port, sizeof port, "%d", invitation->port);
  if (getaddrinfo(host, port, &hints, &found) != 0) return -1;
  for (const struct addrinfo *a = found; a != NULL && s < 0; a = a->ai_next)
    s = try_address(a, invitation, rank);
  freeaddrinfo(found);
  return s;
}

/* At the other ranks: tries the addresses in turn until one is rank 0. */
static neap_status reach(const struct invitation *invitation, const char *address, int rank, double until,
                         int *s) {
  char tried[512] = "";
  RETURN_IF(invitation->port == 0, NEAP_IO_FAILED, "heartbeat: rank 0 does not listen");
  do {
    tried[0] = '\0';
    for (int i = 0; i < (address != NULL ? 1 : ADDRESSES) && *s < 0; i++) {
      const char *host = address != NULL ? address : invitation->addresses[i];
      const size_t used = strlen(tried);
      if (*host == '\0') break;
      snprintf(tried + used, sizeof tried - used, "%s%s", used > 0 ? ", " : "", host);
      *s = try_host(host, invitation, rank);
    }
    if (*s < 0) poll(NULL, 0, 100);
  } while (*s < 0 && clock_seconds() < until);
  RETURN_IF(*s < 0, NEAP_IO_FAILED,
            "heartbeat: rank %d cannot reach rank 0 by TCP (tried %s, port %d); does a firewall separate the "
            "machines?",
            rank, tried, invitation->port);
  return NEAP_OK;
}

void star_close(int *sockets, int size) {
  for (int r = 0; r < size; r++) {
    if (sockets[r] >= 0) close(sockets[r]);
    sockets[r] = -1;
  }
}

neap_status star_connect(const neap_collective *c, const char *address, double seconds, int *sockets) {
  struct invitation invitation = {0};
  uint64_t *bytes = calloc((size_t)c->size, sizeof *bytes);
  int listener = -1;
  RETURN_IF_NULL(bytes);
  for (int r = 0; r < c->size; r++) sockets[r] = -1;
  bytes[0] = sizeof invitation;
  struct ending own = {0}; /* rank 0 hands round that it does not listen, too */
  if (c->rank == 0) ending_keep(&own, invite(&invitation, &listener));
  if (own.status != NEAP_OK) invitation.port = 0;
  neap_status status = c->allgather(c->self, &invitation, bytes);
  free(bytes);
  const double until = clock_seconds() + seconds;
  if (status == NEAP_OK) status = ending_tell(&own);
  if (status == NEAP_OK && c->rank == 0) status = admit_all(listener, &invitation, c->size, until, sockets);
  if (status == NEAP_OK && c->rank > 0) status = reach(&invitation, address, c->rank, until, &sockets[0]);
  if (listener >= 0) close(listener);
  if (status != NEAP_OK) star_close(sockets, c->size);
  return status;
}
