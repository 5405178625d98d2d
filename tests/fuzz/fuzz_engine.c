/*
 * A hostile agent against the engine: the harness is the provider, asks the engine for everything that
 * goes to an agent, and the input is what the agent says. The first byte: bits 0 to 3 choose what is
 * asked, bit 4 whether descriptors come along, bit 5 whether the engine believes that they can; the
 * second gives the size of the pieces. In the frames that follow, a small id stands for that of the
 * first, second, … request the agent has got. Whatever comes, every question has exactly one answer.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include "base/buf.h"
#include "base/fd.h"
#include "base/log.h"
#include "engine/engine_internal.h"
#include "fuzz.h"
#include "fuzz_provider.h"
#include "loop/loop.h"
#include "store/store.h"
#include "sys/tree.h"

static struct {
    struct atoll_loop *loop;
    struct atoll_engine *engine;
    char dir[64];
    int fd;               /* the agent's end of the newest stream */
    struct atoll_buf got; /* what came there */
    uint32_t ids[256];    /* of the requests in it */
    size_t id_count;
    char id[ATOLL_ID_LEN + 1];
    int asked, answered;
    struct atoll_reader *reader;
    struct atoll_file_watch *watch;
    bool recovered, watch_ended;
} world = {.fd = ATOLL_NO_FD};

/* The stream to the agent, whose other end is ours. */
static int new_stream(void)
{
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    if (world.fd >= 0)
        (void)close(world.fd);
    world.fd = pair[1];
    world.id_count = 0;
    atoll_buf_clear(&world.got);
    return pair[0];
}

/* Answers. */

static void check_error(const struct atoll_error *error)
{
    FUZZ_CHECK(error->kind != ATOLL_ERR_NONE && error->kind <= ATOLL_ERR_UNAUTHENTICATED);
    FUZZ_CHECK(strnlen(error->text, sizeof(error->text)) < sizeof(error->text));
}

static void done(void *arg, const struct atoll_error *error)
{
    (void)arg;
    world.answered++;
    if (error)
        check_error(error);
}

static void check_entry(const struct atoll_am_entry *e)
{
    const char *name, *value;
    size_t pos = 0, n = 0;

    n += strlen(e->path) + strlen(e->owner) + strlen(e->group) + strlen(e->target) +
         strlen(e->resolved);
    while (atoll_entry_attribute(e, &pos, &name, &value))
        n += strlen(name) + strlen(value);
    FUZZ_CHECK(n <= ATOLL_FRAME_PAYLOAD_MAX);
}

static void on_entry(void *arg, const struct atoll_am_entry *entry, const struct atoll_error *error)
{
    done(arg, error);
    FUZZ_CHECK((entry == NULL) == (error != NULL));
    if (entry)
        check_entry(entry);
}

static void each_entry(void *arg, const struct atoll_am_entry *entry)
{
    (void)arg;
    check_entry(entry);
}

static void each_xattr(void *arg, const char *name, const uint8_t *value, size_t n)
{
    (void)arg;
    FUZZ_CHECK(strlen(name) + n <= ATOLL_FRAME_PAYLOAD_MAX && (n == 0 || value));
}

static void on_fd(void *arg, int fd, const struct atoll_error *error)
{
    done(arg, error);
    FUZZ_CHECK((fd < 0) == (error != NULL));
    if (fd >= 0)
        (void)close(fd);
}

static void on_opened(void *arg, struct atoll_tenant_file *file, uint64_t size_bytes,
                      const struct atoll_error *error)
{
    const uint8_t *bytes;

    (void)size_bytes;
    done(arg, error);
    FUZZ_CHECK((file == NULL) == (error != NULL));
    if (file)
        (void)!atoll_tenant_file_read(file, &bytes);
    (void)atoll_tenant_file_close(file);
}

static void on_upload(void *arg, struct atoll_upload *upload, const struct atoll_error *error)
{
    static const uint8_t bytes[300];

    done(arg, error);
    FUZZ_CHECK((upload == NULL) == (error != NULL));
    if (error)
        return;
    if (atoll_upload_write(upload, bytes, sizeof(bytes)) < 0) {
        atoll_upload_drop(upload);
        return;
    }
    world.asked++;
    atoll_upload_finish(upload, on_entry, NULL);
}

static void read_output(void *arg)
{
    struct atoll_reader_item item;
    uint64_t seen[3] = {0};

    (void)arg;
    while (atoll_reader_next(world.reader, &item) == 1)
        if (item.kind != ATOLL_READ_END) {
            FUZZ_CHECK(item.stream == ATOLL_STREAM_STDOUT || item.stream == ATOLL_STREAM_STDERR);
            FUZZ_CHECK(item.offset >= seen[item.stream]);
            seen[item.stream] = item.offset + item.length;
        } else {
            FUZZ_CHECK(item.result->kind >= ATOLL_END_EXITED &&
                       item.result->kind <= ATOLL_END_LOST);
            FUZZ_CHECK(strnlen(item.result->reason, sizeof(item.result->reason)) <
                       sizeof(item.result->reason));
        }
}

static void on_exec(void *arg, struct atoll_exec *exec, const struct atoll_error *error)
{
    static const uint8_t input[5] = "input";
    struct atoll_exec_view view;

    done(arg, error);
    if (error)
        return;
    atoll_exec_get(exec, &view);
    if (!world.reader)
        FUZZ_CHECK(atoll_reader_open(exec, 0, 0, read_output, NULL, &world.reader, NULL) == 0);
    world.asked += 3;
    atoll_exec_write(exec, input, sizeof(input), true, done, NULL);
    atoll_exec_resize(exec, 80, 24, done, NULL);
    atoll_exec_signal(exec, 15, true, "fuzz", done, NULL);
}

static void on_watch(void *arg, struct atoll_file_watch *watch, const struct atoll_error *error)
{
    done(arg, error);
    FUZZ_CHECK((watch == NULL) == (error != NULL));
    world.watch = watch;
}

static void on_change(void *arg, enum atoll_watch_kind kind, const char *name)
{
    (void)arg;
    FUZZ_CHECK(kind >= ATOLL_WATCH_CREATE && kind <= ATOLL_WATCH_OVERFLOW && name);
}

static void on_watch_end(void *arg)
{
    (void)arg;
    FUZZ_CHECK(world.watch && !world.watch_ended);
    world.watch_ended = true;
}

static void on_stats(void *arg, const struct atoll_sandbox_stats *s,
                     const struct atoll_error *error)
{
    (void)s;
    done(arg, error);
}

/* Questions: one of these by the first byte, or all. */

static void ask_exec(const char *id)
{
    static const char *const argv[] = {"cat", NULL};
    const struct atoll_exec_start start = {.argv = argv, .stdin_open = true};
    const struct atoll_exec_start held = {.argv = argv, .held = true, .pty = true};

    world.asked += 2;
    atoll_engine_exec(world.engine, id, &start, on_exec, NULL);
    atoll_engine_exec(world.engine, id, &held, on_exec, NULL);
}

static void ask_entry(const char *id)
{
    world.asked += 4;
    atoll_files_stat(world.engine, id, NULL, "a", on_entry, NULL);
    atoll_files_look(world.engine, id, NULL, "a", "user.", on_entry, NULL);
    atoll_files_mkdir(world.engine, id, NULL, "a", on_entry, NULL);
    atoll_files_move(world.engine, id, NULL, "a", "b", on_entry, NULL);
}

static void ask_list(const char *id)
{
    world.asked += 2;
    atoll_files_list(world.engine, id, NULL, "a", 3, each_entry, done, NULL);
    atoll_files_list_look(world.engine, id, NULL, "a", 1, "user.", each_entry, done, NULL);
}

static void ask_change(const char *id)
{
    world.asked += 4;
    atoll_files_remove(world.engine, id, NULL, "a", true, done, NULL);
    atoll_files_chmod(world.engine, id, NULL, "a", 0755, done, NULL);
    atoll_files_chown(world.engine, id, NULL, "a", "b", "c", done, NULL);
    atoll_files_symlink(world.engine, id, NULL, "a", "b", done, NULL);
}

static void ask_xattrs(const char *id)
{
    world.asked += 2;
    atoll_files_xattrs(world.engine, id, NULL, "a", each_xattr, done, NULL);
    atoll_files_set_xattr(world.engine, id, NULL, "a", "user.x", (const uint8_t *)"y", 1, done,
                          NULL);
}

static void ask_open(const char *id)
{
    world.asked++;
    atoll_files_open(world.engine, id, NULL, "a", on_opened, NULL);
}

static void ask_create(const char *id)
{
    world.asked++;
    atoll_files_create(world.engine, id, NULL, "a", 0644, on_upload, NULL);
}

static void ask_watch(const char *id)
{
    static const struct atoll_file_watch_events events = {on_watch, on_change, on_watch_end};

    world.asked++;
    atoll_files_watch(world.engine, id, NULL, "a", true, &events, NULL);
}

static void ask_connect(const char *id)
{
    world.asked++;
    atoll_engine_connect(world.engine, id, 8080, on_fd, NULL);
}

static void ask_stats(const char *id)
{
    world.asked++;
    atoll_engine_stats(world.engine, id, on_stats, NULL);
}

static void ask_pause(const char *id)
{
    world.asked++;
    atoll_engine_pause(world.engine, id, true, "fuzz", done, NULL);
}

static void (*const questions[])(const char *id) = {
    ask_exec,   ask_entry, ask_list,  ask_change,  ask_xattrs, ask_open,
    ask_create, ask_watch, ask_stats, ask_connect, ask_pause,
};

/* Once. */

static void on_recovered(void *arg, const struct atoll_error *error)
{
    (void)arg;
    FUZZ_CHECK(!error);
    world.recovered = true;
}

static void leave(void)
{
    if (*world.dir)
        (void)!atoll_tree_remove(AT_FDCWD, world.dir);
}

static uint32_t word_at(const uint8_t *bytes)
{
    uint32_t word;

    memcpy(&word, bytes, sizeof(word));
    return le32toh(word);
}

/* Remembers the ids of the requests that have come whole. */
static void take_requests(void)
{
    while (atoll_buf_size(&world.got) >= ATOLL_FRAME_HEADER) {
        const uint8_t *head = atoll_buf_head(&world.got);
        size_t whole = ATOLL_FRAME_HEADER + word_at(head);
        if (atoll_buf_size(&world.got) < whole)
            break;
        if (word_at(head + 8) != 0 && world.id_count < ATOLL_ARRAY_LEN(world.ids))
            world.ids[world.id_count++] = word_at(head + 8);
        atoll_buf_consume(&world.got, whole);
    }
}

static void turn(int times)
{
    static uint8_t in[64 * 1024];

    for (int i = 0; i < times; i++) {
        ssize_t n;
        FUZZ_CHECK(atoll_loop_step(world.loop, 0, NULL) == 0);
        while (world.fd >= 0 && (n = recv(world.fd, in, sizeof(in), MSG_DONTWAIT)) > 0) {
            FUZZ_CHECK(atoll_buf_append(&world.got, in, (size_t)n) == 0);
            take_requests();
        }
    }
}

static void open_engine(void)
{
    const struct atoll_engine_provider providers[] = {{.provider = &provider}};
    struct atoll_engine_config config = {.state_dir = world.dir,
                                         .providers = providers,
                                         .provider_count = 1,
                                         .journal_max_bytes = 4096};
    int dir_fd;

    atoll_buf_init(&world.got, (size_t)16 * 1024 * 1024);
    atoll_log_set_level(ATOLL_LOG_ERROR);
    (void)snprintf(world.dir, sizeof(world.dir), "%s/atoll-fuzz-XXXXXX",
                   access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
    FUZZ_CHECK(mkdtemp(world.dir));
    (void)atexit(leave);
    dir_fd = open(world.dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    FUZZ_CHECK(dir_fd >= 0);
    FUZZ_CHECK(atoll_store_open_sqlite(dir_fd, &config.store, NULL) == 0);
    (void)close(dir_fd);
    FUZZ_CHECK(atoll_loop_new(&world.loop, NULL) == 0);
    FUZZ_CHECK(atoll_engine_new(world.loop, &config, &world.engine, NULL) == 0);
    atoll_engine_recover(world.engine, on_recovered, NULL);
    turn(4);
    FUZZ_CHECK(world.recovered);
}

static void on_created(void *arg, struct atoll_sandbox *sandbox, const struct atoll_error *error)
{
    struct atoll_sandbox_view view;

    (void)arg;
    FUZZ_CHECK(!error);
    atoll_sandbox_get(sandbox, &view);
    (void)snprintf(world.id, sizeof(world.id), "%s", view.id);
}

/* What goes along with the bytes, and how to tell that nobody kept it: another way to the same file,
 * which can only be locked when the first is closed, and the other end of the socket. */
static struct {
    int passed[2], file, peer;
} along;

static void make_along(void)
{
    char path[40];
    int pair[2];

    along.passed[0] = memfd_create("fuzz", MFD_CLOEXEC);
    (void)snprintf(path, sizeof(path), "/proc/self/fd/%d", along.passed[0]);
    along.file = open(path, O_RDWR | O_CLOEXEC);
    FUZZ_CHECK(along.file >= 0 && flock(along.passed[0], LOCK_EX) == 0);
    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    along.passed[1] = pair[0];
    along.peer = pair[1];
}

static void check_along(void)
{
    uint8_t byte;

    (void)close(along.passed[0]);
    (void)close(along.passed[1]);
    FUZZ_CHECK(flock(along.file, LOCK_EX | LOCK_NB) == 0);
    FUZZ_CHECK(recv(along.peer, &byte, 1, 0) == 0);
    (void)close(along.file);
    (void)close(along.peer);
}

static void say(const uint8_t *data, size_t size, size_t piece, bool with_fds)
{
    for (size_t at = 0; at < size; at += piece) {
        (void)!atoll_fd_send(world.fd, data + at, ATOLL_MIN(piece, size - at), along.passed,
                             with_fds ? 2 : 0);
        turn(1);
    }
}

/* Frame by frame, as long as there are whole ones. */
static void speak(const uint8_t *data, size_t size, size_t piece, bool with_fds)
{
    while (size >= ATOLL_FRAME_HEADER && word_at(data) <= size - ATOLL_FRAME_HEADER) {
        size_t whole = ATOLL_FRAME_HEADER + word_at(data);
        uint32_t id = word_at(data + 8);
        uint8_t *frame = malloc(whole);
        FUZZ_CHECK(frame);
        memcpy(frame, data, whole);
        if (id > 0 && id <= world.id_count) {
            id = htole32(world.ids[id - 1]);
            memcpy(frame + 8, &id, sizeof(id));
        }
        say(frame, whole, piece, with_fds);
        free(frame);
        data += whole;
        size -= whole;
    }
    say(data, size, piece, with_fds);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t which, piece;

    if (size < 2)
        return 0;
    if (!world.engine)
        open_engine();
    which = data[0] & 15;
    piece = data[1] == 0 ? size : (size_t)data[1] * 4;
    caps.descriptors = data[0] & 32;
    world.asked = world.answered = 0;
    world.watch_ended = false;
    atoll_engine_create(world.engine, &(struct atoll_options){0}, on_created, NULL);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(questions); i++)
        if (i == which || (which >= ATOLL_ARRAY_LEN(questions) && i < 10))
            questions[i](world.id);
    turn(2);
    make_along();
    speak(data + 2, size - 2, piece, data[0] & 16);
    turn(2);
    world.asked++;
    atoll_engine_destroy(world.engine, world.id, "fuzz", done, NULL);
    turn(2);
    if (world.fd >= 0)
        (void)close(ATOLL_TAKE_FD(world.fd)); /* a tunnel's, for example */
    turn(2);
    world.reader = atoll_reader_close(world.reader);
    FUZZ_CHECK(!world.watch || world.watch_ended);
    world.watch = atoll_files_unwatch(world.watch);
    FUZZ_CHECK(world.asked == world.answered);
    FUZZ_CHECK(world.engine->transfers.used == 0);
    FUZZ_CHECK(!atoll_engine_find(world.engine, world.id));
    check_along();
    return 0;
}
