/*
 * How it works: a process for each connection. That of GET /open carries output, and its child takes the
 * input, which other connections pass to it through a unix socket "FILE.ID": neither direction delays the
 * other.
 */
#include "agent/http_relay.h"

#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include "agent/transport.h"
#include "base/fd.h"
#include "base/rand.h"
#include "base/text.h"

#define BACKLOG 64
#define CONNECTIONS_MAX 192
#define HEAD_MAX 16384
#define HEAD_TIMEOUT_S 20
#define ALIVE_MS 15000
#define OFFSET_LEN 8
#define INPUT_MAX ((size_t)1024 * 1024)
#define PIECE ((size_t)64 * 1024)
#define FRAME_HEAD 5
#define CHUNK_HEAD 12 /* of HTTP: digits, CR, LF */

enum frame { FRAME_OPENED = 1, FRAME_OUTPUT, FRAME_ALIVE, FRAME_END };

/* What connections ask the process that takes the input of a stream. */
enum order { ORDER_INPUT = 1, ORDER_END, ORDER_CLOSE };
struct order_head {
    uint32_t order, len;
    uint64_t offset;
};
enum { TAKEN = 1, GAP }; /* its answers */

/* Opening. */

static int print_line(int fd, struct atoll_error *err)
{
    char line[100];

    /* The process that has the lock may not have written it yet. */
    for (int i = 0; i < 200; i++) {
        ssize_t n = pread(fd, line, sizeof(line), 0);
        if (n > 0 && line[n - 1] == '\n')
            return atoll_fd_write_all(1, line, (size_t)n) < 0
                       ? atoll_fail_errno(err, EIO, "standard output")
                       : 1;
        (void)usleep(10000);
    }
    return atoll_fail(err, ATOLL_ERR_UNAVAILABLE, EAGAIN, "another process holds the file");
}

/* A port of the caller's choice is one that a proxy outside of the sandbox connects to. */
static int listen_at(uint16_t *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons(*port),
                             .sin_addr.s_addr = htonl(*port ? INADDR_ANY : INADDR_LOOPBACK)};
    socklen_t n = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

    if (fd < 0)
        return -errno;
    /* Connections of an earlier relay may still be closing. */
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 || listen(fd, BACKLOG) < 0 ||
        getsockname(fd, (struct sockaddr *)&at, &n) < 0) {
        int errnum = errno;
        (void)close(fd);
        return -errnum;
    }
    *port = ntohs(at.sin_port);
    return fd;
}

static int write_line(struct atoll_agent_http_relay *relay, uint16_t port)
{
    char line[100];
    int n;

    atoll_rand_id(relay->token, ATOLL_AGENT_RELAY_TOKEN_LEN);
    n = snprintf(line, sizeof(line), ATOLL_AGENT_RELAY_WORD " %u %s\n", port, relay->token);
    if (ftruncate(relay->lock_fd, 0) < 0 || pwrite(relay->lock_fd, line, (size_t)n, 0) != n)
        return -EIO;
    return atoll_fd_write_all(1, line, (size_t)n);
}

int atoll_agent_http_relay_open(struct atoll_agent_http_relay *relay, const char *file,
                                const char *socket, uint16_t port, struct atoll_error *err)
{
    int r;

    *relay =
        (struct atoll_agent_http_relay){.listen_fd = ATOLL_NO_FD, .file = file, .socket = socket};
    relay->lock_fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (relay->lock_fd < 0)
        return atoll_fail_errno(err, errno, "%s", file);
    if (flock(relay->lock_fd, LOCK_EX | LOCK_NB) < 0)
        return print_line(relay->lock_fd, err);
    relay->listen_fd = listen_at(&port);
    r = relay->listen_fd < 0 ? relay->listen_fd : write_line(relay, port);
    return r < 0 ? atoll_fail_errno(err, -r, "%s", file) : 0;
}

/* Requests. */

struct request {
    char head[HEAD_MAX + 1];
    size_t head_len; /* with the empty line */
    size_t got;      /* bytes in head, some of them of the body */
    size_t body_len;
    const char *verb; /* "open", "input" … */
    char id[33];
};

static _Noreturn void answer(int fd, const char *status)
{
    char text[200];
    int n = snprintf(text, sizeof(text),
                     "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n\r\n", status);

    (void)!atoll_fd_write_all(fd, text, (size_t)n);
    /* With unread input the kernel would discard the answer. */
    (void)shutdown(fd, SHUT_WR);
    while (read(fd, text, sizeof(text)) > 0)
        ;
    _exit(0);
}

/* The value of a header; NULL: it is missing. The head ends with NUL and its lines with CR LF. */
static const char *find_header(const struct request *q, const char *name, size_t *ret_len)
{
    size_t n = strlen(name);

    for (const char *line = q->head; (line = strstr(line, "\r\n")) != NULL;) {
        line += 2;
        if (strncasecmp(line, name, n) == 0 && line[n] == ':') {
            line += n + 1;
            line += strspn(line, " \t");
            *ret_len = strcspn(line, "\r\n");
            return line;
        }
    }
    return NULL;
}

static bool shows_token(const struct request *q, const char *token)
{
    size_t n = 0;
    const char *shown = find_header(q, "stream-token", &n);
    unsigned char differs = 0;

    if (!shown || n != ATOLL_AGENT_RELAY_TOKEN_LEN)
        return false;
    for (size_t i = 0; i < n; i++)
        differs |= (unsigned char)(shown[i] ^ token[i]);
    return differs == 0;
}

static bool take_length(struct request *q)
{
    size_t n = 0;
    const char *text = find_header(q, "content-length", &n);
    char number[12];
    uint64_t length = 0;

    if (!text)
        return find_header(q, "transfer-encoding", &n) == NULL;
    if (n >= sizeof(number))
        return false;
    (void)snprintf(number, sizeof(number), "%.*s", (int)n, text);
    if (atoll_text_u64(number, 0, INPUT_MAX + OFFSET_LEN, &length) < 0)
        return false;
    q->body_len = (size_t)length;
    return true;
}

/* "POST /VERB/ID HTTP/1.1" */
static bool take_target(struct request *q)
{
    static const char *const verbs[] = {"GET open", "POST input", "POST end", "POST close"};
    char method[5], verb[8], both[16];

    if (sscanf(q->head, "%4[A-Z] /%7[a-z]/%32[0-9a-z] ", method, verb, q->id) != 3 ||
        strlen(q->id) != 32)
        return false;
    (void)snprintf(both, sizeof(both), "%s %s", method, verb);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(verbs); i++)
        if (strcmp(both, verbs[i]) == 0)
            q->verb = strchr(verbs[i], ' ') + 1;
    return q->verb != NULL;
}

static bool read_head(int fd, struct request *q)
{
    char *end;

    do {
        ssize_t n = q->got < HEAD_MAX ? read(fd, q->head + q->got, HEAD_MAX - q->got) : 0;
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return false;
        q->got += (size_t)n;
        q->head[q->got] = '\0';
    } while (!(end = strstr(q->head, "\r\n\r\n")));
    q->head_len = (size_t)(end + 4 - q->head);
    return true;
}

/* Input. */

static void stream_path(const struct atoll_agent_http_relay *relay, const char *id, char *out,
                        size_t cap)
{
    (void)snprintf(out, cap, "%s.%s", relay->file, id);
}

static int take_input(int agent_fd, int from, const struct order_head *head, uint64_t *received)
{
    static uint8_t bytes[INPUT_MAX];
    size_t skip;

    if (head->len > INPUT_MAX || atoll_fd_read_all(from, bytes, head->len) < 0)
        return -EBADMSG;
    if (head->offset > *received)
        return GAP;
    /* A proxy may repeat a request: bytes that came before are skipped. */
    skip = (size_t)(*received - head->offset);
    if (skip < head->len && atoll_fd_write_all(agent_fd, bytes + skip, head->len - skip) < 0)
        return -EPIPE;
    *received = ATOLL_MAX(*received, head->offset + head->len);
    return TAKEN;
}

/* Serves orders until the stream is closed. */
static _Noreturn void carry_in(int agent_fd, int listen_fd)
{
    uint64_t received = 0;
    struct order_head head;
    bool open = true;

    while (open) {
        int from = accept4(listen_fd, NULL, NULL, SOCK_CLOEXEC), r = TAKEN;
        uint8_t result;

        if (from < 0 && (errno == EINTR || errno == ECONNABORTED))
            continue;
        if (from < 0 || atoll_fd_read_all(from, &head, sizeof(head)) < 0)
            r = -EBADMSG;
        else if (head.order == ORDER_INPUT)
            r = take_input(agent_fd, from, &head, &received);
        else if (head.order == ORDER_END && head.offset != received)
            r = GAP;
        open = r != -EPIPE && head.order != ORDER_CLOSE && from >= 0;
        result = (uint8_t)(r > 0 ? r : 0);
        (void)!write(from, &result, 1);
        (void)close(from);
        /* After the answer: once the agent ends the stream as well, this process is killed. */
        if (r == TAKEN && head.order == ORDER_END)
            (void)shutdown(agent_fd, SHUT_WR);
    }
    (void)shutdown(agent_fd, SHUT_RDWR);
    _exit(0);
}

/* Passes an order on, and answers with the result. */
static _Noreturn void pass_on(const struct atoll_agent_http_relay *relay, int fd,
                              const struct request *q, enum order order)
{
    static uint8_t body[OFFSET_LEN + INPUT_MAX];
    size_t have = ATOLL_MIN(q->got - q->head_len, q->body_len);
    struct order_head head = {.order = order};
    struct atoll_error ignored;
    uint8_t result = 0;
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    int to;

    memcpy(body, q->head + q->head_len, have);
    if (atoll_fd_read_all(fd, body + have, q->body_len - have) < 0 ||
        (order != ORDER_CLOSE && q->body_len < OFFSET_LEN))
        answer(fd, "400 Bad Request");
    if (order != ORDER_CLOSE)
        memcpy(&head.offset, body, OFFSET_LEN);
    head.offset = be64toh(head.offset);
    if (order == ORDER_INPUT)
        head.len = (uint32_t)(q->body_len - OFFSET_LEN);
    stream_path(relay, q->id, path, sizeof(path));
    to = atoll_agent_transport_connect(path, &ignored);
    if (to < 0 || atoll_fd_write_all(to, &head, sizeof(head)) < 0 ||
        atoll_fd_write_all(to, body + OFFSET_LEN, head.len) < 0 ||
        atoll_fd_read_all(to, &result, 1) < 0 || result == 0)
        answer(fd, "404 Not Found");
    answer(fd, result == TAKEN ? "204 No Content" : "409 Conflict");
}

/* Output. */

/* Sends a frame as one chunk of the answer. There are CHUNK_HEAD + FRAME_HEAD writable bytes before the n
 * bytes of the payload, and two after them. */
static int send_frame(int fd, enum frame type, uint8_t *payload, size_t n)
{
    char size[CHUNK_HEAD + 1];
    int len = snprintf(size, sizeof(size), "%zx\r\n", FRAME_HEAD + n);
    uint8_t *frame = payload - FRAME_HEAD, *start = frame - len;
    uint32_t length = htobe32((uint32_t)n);

    memcpy(start, size, (size_t)len);
    frame[0] = (uint8_t)type;
    memcpy(frame + 1, &length, sizeof(length));
    payload[n] = '\r';
    payload[n + 1] = '\n';
    return atoll_fd_write_all(fd, start, (size_t)(payload + n + 2 - start));
}

/* Copies output until the agent ends the stream or the client is gone. */
static void carry_out(int fd, int agent_fd)
{
    static uint8_t room[CHUNK_HEAD + FRAME_HEAD + PIECE + 2];
    uint8_t *payload = room + CHUNK_HEAD + FRAME_HEAD;
    struct pollfd fds[] = {{.fd = agent_fd, .events = POLLIN}, {.fd = fd, .events = POLLRDHUP}};
    int r = send_frame(fd, FRAME_OPENED, payload, 0);

    while (r == 0) {
        ssize_t n = 0;

        r = poll(fds, ATOLL_ARRAY_LEN(fds), ALIVE_MS);
        if (r < 0 && errno == EINTR) {
            r = 0;
            continue;
        }
        if (r < 0 || fds[1].revents)
            return;
        if (r == 0) {
            r = send_frame(fd, FRAME_ALIVE, payload, 0);
            continue;
        }
        n = read(agent_fd, payload, PIECE);
        if (n <= 0) {
            r = send_frame(fd, FRAME_END, payload, 0);
            if (r == 0)
                (void)!atoll_fd_write_all(fd, "0\r\n\r\n", 5);
            return;
        }
        r = send_frame(fd, FRAME_OUTPUT, payload, (size_t)n);
    }
}

static const char stream_head[] =
    "HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nCache-Control: no-store\r\n"
    "X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

/* The agent does not listen: an end without a beginning. A status could be one of the proxy. */
static _Noreturn void refuse_stream(int fd)
{
    uint8_t room[CHUNK_HEAD + FRAME_HEAD + 2];

    if (atoll_fd_write_all(fd, stream_head, sizeof(stream_head) - 1) == 0 &&
        send_frame(fd, FRAME_END, room + CHUNK_HEAD + FRAME_HEAD, 0) == 0)
        (void)!atoll_fd_write_all(fd, "0\r\n\r\n", 5);
    _exit(0);
}

static _Noreturn void open_stream(const struct atoll_agent_http_relay *relay, int fd,
                                  const struct request *q)
{
    char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
    struct timeval none = {0};
    struct atoll_error error;
    int agent_fd, listen_fd;
    pid_t pid;

    stream_path(relay, q->id, path, sizeof(path));
    agent_fd = atoll_agent_transport_connect(relay->socket, &error);
    if (agent_fd < 0)
        refuse_stream(fd);
    listen_fd = atoll_agent_transport_listen(path, ATOLL_AGENT_SOCKET_MODE, &error);
    if (listen_fd < 0)
        answer(fd, error.kind == ATOLL_ERR_ALREADY_EXISTS ? "409 Conflict" : "500 Not Open");
    pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
        (void)close(fd);
        carry_in(agent_fd, listen_fd);
    }
    (void)close(listen_fd);
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &none, sizeof(none));
    if (pid > 0 && atoll_fd_write_all(fd, stream_head, sizeof(stream_head) - 1) == 0)
        carry_out(fd, agent_fd);
    (void)unlink(path);
    if (pid > 0) {
        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0); /* the first process of a sandbox may not reap */
    }
    _exit(0);
}

/* Connections. */

static _Noreturn void serve(const struct atoll_agent_http_relay *relay, int fd)
{
    static struct request q;
    const struct timeval limit = {.tv_sec = HEAD_TIMEOUT_S};

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (!read_head(fd, &q))
        answer(fd, "400 Bad Request");
    if (!shows_token(&q, relay->token))
        answer(fd, "403 Forbidden");
    if (!take_target(&q))
        answer(fd, "404 Not Found");
    if (!take_length(&q))
        answer(fd, "411 Length Required");
    if (strcmp(q.verb, "open") == 0)
        open_stream(relay, fd, &q);
    pass_on(relay, fd, &q,
            strcmp(q.verb, "input") == 0 ? ORDER_INPUT
            : strcmp(q.verb, "end") == 0 ? ORDER_END
                                         : ORDER_CLOSE);
}

static void admit(const struct atoll_agent_http_relay *relay, int fd, unsigned *children)
{
    static const char busy[] =
        "HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    pid_t pid = *children < CONNECTIONS_MAX ? fork() : -1;

    if (pid == 0) {
        (void)close(relay->listen_fd);
        (void)close(relay->lock_fd);
        serve(relay, fd);
    }
    if (pid > 0)
        ++*children;
    else
        (void)!write(fd, busy, sizeof(busy) - 1);
    (void)close(fd);
}

void atoll_agent_http_relay_run(struct atoll_agent_http_relay *relay)
{
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    unsigned children = 0;

    (void)sigaction(SIGPIPE, &ignore, NULL);
    /* The tenant's processes must not trace the relay and read its token. */
    (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
    for (;;) {
        int fd = accept4(relay->listen_fd, NULL, NULL, SOCK_CLOEXEC);

        while (children > 0 && waitpid(-1, NULL, WNOHANG) > 0)
            children--;
        if (fd >= 0)
            admit(relay, fd, &children);
        else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
            (void)usleep(100000);
    }
}
