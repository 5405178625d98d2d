#include "api/auth.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "base/rand.h"

#define KEY_FILE "api-key"
#define KEY_PREFIX "atl_"
#define KEY_RANDOM (ATOLL_AUTH_KEY_LEN - (sizeof(KEY_PREFIX) - 1))

static bool is_key(const char *text)
{
    return strlen(text) == ATOLL_AUTH_KEY_LEN &&
           strncmp(text, KEY_PREFIX, sizeof(KEY_PREFIX) - 1) == 0 &&
           strspn(text + sizeof(KEY_PREFIX) - 1, "abcdefghijklmnopqrstuvwxyz0123456789") ==
               KEY_RANDOM;
}

void atoll_auth_set_key(struct atoll_auth *auth, const char *key)
{
    (void)SHA256((const uint8_t *)key, strlen(key), auth->key_sha256);
    auth->has_key = true;
}

/* Complete under another name first: a crash in between must not leave half a key. */
static int write_key(int state_fd, const char *key)
{
    static const char temp[] = KEY_FILE ".new";
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)unlinkat(state_fd, temp, 0);
    fd = openat(state_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    r = atoll_fd_write_all(fd, key, strlen(key));
    if (r == 0)
        r = atoll_fd_write_all(fd, "\n", 1);
    if (r == 0 && (fsync(fd) < 0 || renameat(state_fd, temp, state_fd, KEY_FILE) < 0))
        r = -errno;
    return r;
}

static int make_key(struct atoll_auth *auth, int state_fd, struct atoll_error *err)
{
    char key[ATOLL_AUTH_KEY_LEN + 1] = KEY_PREFIX;
    int r;

    atoll_rand_id(key + sizeof(KEY_PREFIX) - 1, KEY_RANDOM);
    r = write_key(state_fd, key);
    if (r == 0)
        atoll_auth_set_key(auth, key);
    OPENSSL_cleanse(key, sizeof(key));
    return r < 0 ? atoll_fail_errno(err, -r, "writing the file " KEY_FILE) : 0;
}

static int read_key(struct atoll_auth *auth, int fd, struct atoll_error *err)
{
    char text[ATOLL_AUTH_KEY_LEN + 8] = "";
    struct stat st;
    bool valid;

    if (fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "reading the file " KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the file " KEY_FILE " in the state directory is open to other users; "
                          "remove it to get a new key, or chmod it to 600");
    if (read(fd, text, sizeof(text) - 1) < 0)
        return atoll_fail_errno(err, errno, "reading the file " KEY_FILE);
    text[strcspn(text, "\r\n")] = '\0';
    valid = is_key(text);
    if (valid)
        atoll_auth_set_key(auth, text);
    OPENSSL_cleanse(text, sizeof(text));
    return valid
               ? 0
               : atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                            "the file " KEY_FILE " in the state directory holds no key; remove it "
                            "to get a new one");
}

int atoll_auth_load(struct atoll_auth *auth, int state_fd, struct atoll_error *err)
{
    ATOLL_AUTOCLOSE int fd =
        openat(state_fd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);

    if (fd < 0 && errno != ENOENT)
        return atoll_fail_errno(err, errno, "opening the file " KEY_FILE);
    return fd < 0 ? make_key(auth, state_fd, err) : read_key(auth, fd, err);
}

static const char *shown_key(const struct atoll_http_request *req)
{
    const char *bearer = atoll_http_header(req, "authorization");

    if (bearer && strncasecmp(bearer, "bearer ", 7) == 0)
        return bearer + 7 + strspn(bearer + 7, " ");
    return atoll_http_header(req, "x-api-key");
}

static int check_key(const struct atoll_auth *auth, const char *key, struct atoll_error *err)
{
    uint8_t hash[SHA256_DIGEST_LENGTH];

    if (!key)
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this needs an API key");
    (void)SHA256((const uint8_t *)key, strlen(key), hash);
    /* Hashes have one length and are compared in constant time: no timing tells about the key. */
    if (!auth->has_key || CRYPTO_memcmp(hash, auth->key_sha256, sizeof(hash)) != 0)
        return atoll_fail(err, ATOLL_ERR_UNAUTHENTICATED, EACCES, "this API key is not valid");
    return 0;
}

int atoll_auth_check(const struct atoll_auth *auth, const struct atoll_http_request *req,
                     enum atoll_scope *ret_scope, struct atoll_error *err)
{
    const struct atoll_http_peer *peer = atoll_http_peer(req);
    int r = 0;

    if (!peer->is_unix)
        r = check_key(auth, shown_key(req), err);
    else if (peer->uid != 0 && peer->uid != geteuid())
        r = atoll_fail(err, ATOLL_ERR_PERMISSION_DENIED, EPERM,
                       "this socket serves root and the user the daemon runs as, not uid %u",
                       (unsigned)peer->uid);
    if (r == 0)
        *ret_scope = ATOLL_SCOPE_WRITE;
    return r;
}
