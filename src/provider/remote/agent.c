#include "provider/remote/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>
#include "base/fd.h"
#include "base/tar.h"

#define AGENT_MAX ((off_t)64 * 1024 * 1024)
#define ARCHIVE_MORE ((size_t)64 * 1024)
#define PLACE_DIR "/var/lib/atoll"
#define PLACE PLACE_DIR "/agent"
#define EXIT_MISSING 3
#define COMMAND_MAX ((size_t)64 * 1024)

/* $1: the hash; $2: where it is uploaded to; $3: the port of the relay over HTTP, "": no relay; $4: the
 * default user, or none. Looks where we keep it, and where an installed Atoll has it. An upload of another user is copied
 * before it is compared, so that the user cannot exchange it. */
static const char script[] =
    "is() { h=$(sha256sum <\"$1\") && [ \"${h%% *}\" = \"$want\" ]; }\n"
    "want=$1\n"
    "for f in " PLACE " /usr/local/libexec/atoll/atoll-agent /usr/libexec/atoll/atoll-agent; do\n"
    "  [ -f \"$f\" ] && is \"$f\" && break\n"
    "  f=\n"
    "done\n"
    "if [ -z \"$f\" ] && [ \"$2\" != " PLACE " ] && [ -f \"$2\" ]; then\n"
    "  mkdir -p " PLACE_DIR " && cp \"$2\" " PLACE ".new && is " PLACE ".new &&\n"
    "    mv " PLACE ".new " PLACE " && rm -f \"$2\" && f=" PLACE "\n"
    "fi\n"
    "[ -n \"$f\" ] || exit 3\n"
    "[ -x \"$f\" ] || chmod 755 \"$f\" || exit 1\n"
    "mkdir -p -m 700 " ATOLL_REMOTE_RUN_DIR " && ln -sfn \"$f\" " ATOLL_REMOTE_AGENT
    " || exit 1\n" ATOLL_REMOTE_AGENT " --listen " ATOLL_REMOTE_SOCKET
    " --no-fds --in-container \"${4-}\" --detach || exit 1\n"
    "[ -z \"$3\" ] || exec " ATOLL_REMOTE_RELAY_COMMAND "\"$3\"\n";

struct atoll_remote_agent {
    char *path; /* owned */
    enum atoll_remote_form form;
    pthread_mutex_t lock; /* guards the members below, which are set once */
    void *bytes;          /* what upload() gets; owned */
    size_t len;
    char sha256[65]; /* of the file */
};

struct atoll_remote_agent *atoll_remote_agent_new(const char *path, enum atoll_remote_form form)
{
    struct atoll_remote_agent *a = calloc(1, sizeof(*a));

    if (!a)
        return NULL;
    (void)pthread_mutex_init(&a->lock, NULL);
    a->form = form;
    a->path = strdup(path);
    return a->path ? a : atoll_remote_agent_free(a);
}

struct atoll_remote_agent *atoll_remote_agent_free(struct atoll_remote_agent *a)
{
    if (!a)
        return NULL;
    (void)pthread_mutex_destroy(&a->lock);
    free(a->path);
    free(a->bytes);
    free(a);
    return NULL;
}

/* The file. */

static int pack(const void *bytes, size_t n, void **ret, size_t *ret_len)
{
    z_stream z = {.next_in = (Bytef *)(uintptr_t)bytes, .avail_in = (uInt)n};
    size_t cap;
    uint8_t *out;

    /* 16: with a gzip header. */
    if (deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return -ENOMEM;
    cap = deflateBound(&z, (uLong)n);
    out = malloc(cap);
    z.next_out = out;
    z.avail_out = (uInt)cap;
    if (!out || deflate(&z, Z_FINISH) != Z_STREAM_END) {
        (void)deflateEnd(&z);
        free(out);
        return -ENOMEM;
    }
    *ret_len = cap - z.avail_out;
    *ret = out;
    (void)deflateEnd(&z);
    return 0;
}

/* An archive with this one file. */
static int archive(const void *bytes, size_t n, struct atoll_buf *out)
{
    static const uint8_t zeros[3 * ATOLL_TAR_BLOCK];
    const struct atoll_tar_entry entry = {
        .type = ATOLL_TAR_FILE, .name = ATOLL_REMOTE_ENTRY, .mode = 0644, .size = n};
    int r = atoll_tar_head(out, &entry);

    if (r == 0)
        r = atoll_buf_append(out, bytes, n);
    return r < 0 ? r
                 : atoll_buf_append(out, zeros, atoll_tar_padding(n) + 2 * (size_t)ATOLL_TAR_BLOCK);
}

static int pack_archive(const void *bytes, size_t n, void **ret, size_t *ret_len)
{
    struct atoll_buf tar;
    int r;

    atoll_buf_init(&tar, (size_t)AGENT_MAX + ARCHIVE_MORE);
    r = archive(bytes, n, &tar);
    if (r == 0)
        r = pack(atoll_buf_head(&tar), atoll_buf_size(&tar), ret, ret_len);
    atoll_buf_done(&tar);
    return r;
}

static int hash(const void *bytes, size_t n, char text[65])
{
    uint8_t digest[32];
    unsigned len = 0;

    if (EVP_Digest(bytes, n, digest, &len, EVP_sha256(), NULL) != 1 || len != sizeof(digest))
        return -EIO;
    for (size_t i = 0; i < sizeof(digest); i++)
        (void)snprintf(text + 2 * i, 3, "%02x", digest[i]);
    return 0;
}

static int load(struct atoll_remote_agent *a, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd = open(a->path, O_RDONLY | O_CLOEXEC);
    ATOLL_AUTOFREE void *bytes = NULL;
    struct stat st;
    size_t n;
    int r;

    if (fd < 0 || fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "%s", a->path);
    if (st.st_size <= 0 || st.st_size > AGENT_MAX)
        return atoll_fail_errno(err, EFBIG, "%s", a->path);
    n = (size_t)st.st_size;
    bytes = malloc(n);
    r = bytes ? atoll_fd_read_all(fd, bytes, n) : -ENOMEM;
    if (r == 0)
        r = hash(bytes, n, a->sha256);
    if (r == 0 && a->form == ATOLL_REMOTE_GZIP) {
        r = pack(bytes, n, &a->bytes, &a->len);
    } else if (r == 0 && a->form == ATOLL_REMOTE_TGZ) {
        r = pack_archive(bytes, n, &a->bytes, &a->len);
    } else if (r == 0) {
        a->bytes = bytes;
        a->len = n;
        bytes = NULL;
    }
    return r < 0 ? atoll_fail_errno(err, -r, "%s", a->path) : 0;
}

/* Read once: a new agent file is used by the next daemon only. */
static int have_agent(struct atoll_remote_agent *a, struct atoll_error *err)
{
    int r;

    (void)pthread_mutex_lock(&a->lock);
    r = a->bytes ? 0 : load(a, err);
    (void)pthread_mutex_unlock(&a->lock);
    return r;
}

int atoll_remote_agent_start(struct atoll_remote_agent *a, const struct atoll_sync_call *call,
                             const struct atoll_remote_installer *i, struct atoll_remote_exit *ret,
                             struct atoll_error *err)
{
    const char *place = i->upload_to ? i->upload_to : PLACE;
    char port[8] = "";
    const char *argv[] = {"/bin/sh", "-c", script, "sh", a->sha256, place, port, NULL};
    int r = have_agent(a, err);

    if (i->http)
        (void)snprintf(port, sizeof(port), "%u", i->port);
    *ret = (struct atoll_remote_exit){0};
    if (r == 0)
        r = i->run(i->arg, call, argv, ret, err);
    if (r == 0 && ret->code == EXIT_MISSING) {
        r = i->upload(i->arg, call, place, a->bytes, a->len, err);
        if (r == 0)
            r = i->run(i->arg, call, argv, ret, err);
    }
    if (r == 0 && ret->code != 0)
        r = atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, ENOEXEC,
                       "the agent does not start in the sandbox (status %d): %.160s; the template "
                       "needs /bin/sh and sha256sum, and root or sudo without a password",
                       ret->code, ret->text);
    return r;
}

/* Commands. */

static int quote(struct atoll_buf *out, const char *text)
{
    int r = atoll_buf_appends(out, " '");

    for (; r == 0 && *text; text++)
        r = *text == '\'' ? atoll_buf_appends(out, "'\\''") : atoll_buf_append(out, text, 1);
    return r < 0 ? r : atoll_buf_appends(out, "'");
}

char *atoll_remote_as_root(const char *const *argv)
{
    struct atoll_buf out;
    char *text = NULL;
    int r;

    atoll_buf_init(&out, COMMAND_MAX);
    r = atoll_buf_appends(&out, "set --");
    for (; r == 0 && *argv; argv++)
        r = quote(&out, *argv);
    if (r == 0)
        r = atoll_buf_appends(&out, "\nif [ \"$(id -u)\" = 0 ]; then exec \"$@\"; fi\n"
                                    "exec sudo -n -- \"$@\" \"$(id -un)\"\n");
    if (r == 0)
        text = strdup(atoll_buf_str(&out));
    atoll_buf_done(&out);
    return text;
}
