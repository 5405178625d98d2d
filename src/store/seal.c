#include "store/seal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/fd.h"
#include "base/memory.h"
#include "base/rand.h"

#define KEY_BYTES 32
#define MAGIC_BYTES 3
#define VERSION 1
#define NAME_BYTES 8 /* of the key */
#define SALT_BYTES 12
#define NONCE_BYTES 12
#define TAG_BYTES 16
#define FILE_BYTES (2 * KEY_BYTES + 1) /* hex digits and a newline */

_Static_assert(MAGIC_BYTES + 1 + NAME_BYTES == ATOLL_SEAL_HEAD_BYTES, "the head");
_Static_assert(ATOLL_SEAL_HEAD_BYTES + SALT_BYTES + NONCE_BYTES + TAG_BYTES ==
                   ATOLL_SEAL_EXTRA_BYTES,
               "all");

static const uint8_t magic[MAGIC_BYTES] = {0, 'A', 'S'};

struct atoll_seal {
    uint8_t key[KEY_BYTES];
    uint8_t head[ATOLL_SEAL_HEAD_BYTES];
};

/* The key. */

/* A key is named by a hash of it, so that a value tells which key it needs. */
static void name_key(struct atoll_seal *seal)
{
    static const char label[] = "atoll secret.key";
    uint8_t text[sizeof(label) + KEY_BYTES], hash[SHA256_DIGEST_LENGTH];

    memcpy(text, label, sizeof(label));
    memcpy(text + sizeof(label), seal->key, KEY_BYTES);
    (void)SHA256(text, sizeof(text), hash);
    explicit_bzero(text, sizeof(text));
    memcpy(seal->head, magic, MAGIC_BYTES);
    seal->head[MAGIC_BYTES] = VERSION;
    memcpy(seal->head + MAGIC_BYTES + 1, hash, NAME_BYTES);
}

static int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_key(const char *text, size_t n, uint8_t *key)
{
    if (n != FILE_BYTES || text[n - 1] != '\n')
        return false;
    for (size_t i = 0; i < KEY_BYTES; i++) {
        int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        key[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static void print_key(const uint8_t *key, char text[static FILE_BYTES])
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < KEY_BYTES; i++) {
        text[2 * i] = digits[key[i] >> 4];
        text[2 * i + 1] = digits[key[i] & 15];
    }
    text[FILE_BYTES - 1] = '\n';
}

static struct atoll_seal *seal_new(void)
{
    struct atoll_seal *seal = atoll_alloc(sizeof(*seal));

    return seal;
}

/* Returns the number of bytes, at most FILE_BYTES + 1, or -errno. */
static ssize_t read_key(int dir_fd, char text[static FILE_BYTES + 1])
{
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    struct stat st;
    ssize_t n;

    fd = openat(dir_fd, ATOLL_SEAL_KEY_FILE, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &st) < 0)
        return -errno;
    if (!S_ISREG(st.st_mode))
        return -EINVAL;
    if ((st.st_mode & 07777) != 0600 && fchmod(fd, 0600) < 0)
        return -errno;
    n = read(fd, text, FILE_BYTES + 1);
    return n < 0 ? -errno : n;
}

int atoll_seal_load(int dir_fd, struct atoll_seal **ret, struct atoll_error *err)
{
    char text[FILE_BYTES + 1];
    struct atoll_seal *seal;
    ssize_t n = read_key(dir_fd, text);
    bool valid;

    if (n == -ENOENT)
        return atoll_fail(err, ATOLL_ERR_NOT_FOUND, ENOENT, "the file %s does not exist",
                          ATOLL_SEAL_KEY_FILE);
    if (n < 0)
        return atoll_fail_errno(err, (int)-n, "read the file %s", ATOLL_SEAL_KEY_FILE);
    seal = seal_new();
    valid = parse_key(text, (size_t)n, seal->key);
    explicit_bzero(text, sizeof(text));
    if (!valid) {
        (void)atoll_seal_free(seal);
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "the file %s is damaged: it does not hold one line of 64 hex digits",
                          ATOLL_SEAL_KEY_FILE);
    }
    name_key(seal);
    *ret = seal;
    return 0;
}

/* The name appears only once the whole key is on the disk: a crash leaves no half of a key. */
static int write_key(int dir_fd, const char *text)
{
    static const char temp[] = ATOLL_SEAL_KEY_FILE ".new";
    ATOLL_AUTOCLOSE int fd = ATOLL_NO_FD;
    int r;

    (void)unlinkat(dir_fd, temp, 0);
    fd = openat(dir_fd, temp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return -errno;
    r = atoll_fd_write_all(fd, text, FILE_BYTES);
    if (r == 0 && (fchmod(fd, 0600) < 0 || fsync(fd) < 0 ||
                   linkat(dir_fd, temp, dir_fd, ATOLL_SEAL_KEY_FILE, 0) < 0))
        r = -errno;
    (void)unlinkat(dir_fd, temp, 0);
    return r == 0 && fsync(dir_fd) < 0 ? -errno : r;
}

int atoll_seal_make(int dir_fd, struct atoll_seal **ret, struct atoll_error *err)
{
    struct atoll_seal *seal = seal_new();
    char text[FILE_BYTES];
    int r;

    atoll_rand_bytes(seal->key, sizeof(seal->key));
    name_key(seal);
    print_key(seal->key, text);
    r = write_key(dir_fd, text);
    explicit_bzero(text, sizeof(text));
    if (r == 0) {
        *ret = seal;
        return 0;
    }
    (void)atoll_seal_free(seal);
    if (r == -EEXIST)
        return atoll_fail(err, ATOLL_ERR_ALREADY_EXISTS, EEXIST, "the file %s exists already",
                          ATOLL_SEAL_KEY_FILE);
    return atoll_fail_errno(err, -r, "make the file %s", ATOLL_SEAL_KEY_FILE);
}

struct atoll_seal *atoll_seal_free(struct atoll_seal *seal)
{
    if (seal)
        explicit_bzero(seal, sizeof(*seal));
    free(seal);
    return NULL;
}

/* Values. */

const uint8_t *atoll_seal_head(const struct atoll_seal *seal)
{
    return seal->head;
}

bool atoll_seal_is_sealed(const void *bytes, size_t n)
{
    return n >= ATOLL_SEAL_EXTRA_BYTES && memcmp(bytes, magic, MAGIC_BYTES) == 0;
}

/* A context that has the value's key, the nonce, and all that is authenticated but not encrypted: the
 * head and the place. A key of its own, because random nonces are safe for 2^32 values of one key only.
 * random: salt and nonce. NULL: OpenSSL has no memory. */
static EVP_CIPHER_CTX *begin(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                             const uint8_t *random, bool encrypt)
{
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    uint8_t key[KEY_BYTES];
    int n;
    bool keyed = ctx && HMAC(EVP_sha256(), seal->key, KEY_BYTES, random, SALT_BYTES, key, NULL) &&
                 EVP_CipherInit_ex(ctx, EVP_aes_256_gcm(), NULL, key, random + SALT_BYTES,
                                   encrypt ? 1 : 0) == 1;

    explicit_bzero(key, sizeof(key));
    if (keyed && EVP_CipherUpdate(ctx, NULL, &n, seal->head, ATOLL_SEAL_HEAD_BYTES) == 1 &&
        EVP_CipherUpdate(ctx, NULL, &n, (const uint8_t *)place->purpose,
                         (int)strlen(place->purpose) + 1) == 1 &&
        EVP_CipherUpdate(ctx, NULL, &n, (const uint8_t *)place->owner,
                         (int)strlen(place->owner) + 1) == 1)
        return ctx;
    EVP_CIPHER_CTX_free(ctx);
    return NULL;
}

static int reserve(struct atoll_buf *out, size_t n, uint8_t **ret_tail, struct atoll_error *err)
{
    int r = n > INT_MAX ? -ENOBUFS : atoll_buf_reserve(out, n, ret_tail);

    return r < 0 ? atoll_fail(err, ATOLL_ERR_RESOURCE_EXHAUSTED, -r,
                              "a value of %zu bytes is too large to be sealed", n)
                 : 0;
}

int atoll_seal_write(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                     const void *plain, size_t n, struct atoll_buf *out, struct atoll_error *err)
{
    EVP_CIPHER_CTX *ctx;
    uint8_t *at, *random, *text;
    int got = 0;
    bool done;

    if (reserve(out, n + ATOLL_SEAL_EXTRA_BYTES, &at, err) < 0)
        return -ENOBUFS;
    random = at + ATOLL_SEAL_HEAD_BYTES;
    text = random + SALT_BYTES + NONCE_BYTES;
    memcpy(at, seal->head, ATOLL_SEAL_HEAD_BYTES);
    atoll_rand_bytes(random, SALT_BYTES + NONCE_BYTES);
    ctx = begin(seal, place, random, true);
    done = ctx && (n == 0 || EVP_EncryptUpdate(ctx, text, &got, plain, (int)n) == 1) &&
           EVP_EncryptFinal_ex(ctx, text + n, &got) == 1 &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_GET_TAG, TAG_BYTES, text + n) == 1;
    EVP_CIPHER_CTX_free(ctx);
    if (!done)
        return atoll_fail_errno(err, ENOMEM, "seal a value");
    atoll_buf_commit(out, n + ATOLL_SEAL_EXTRA_BYTES);
    return 0;
}

static int check_head(const struct atoll_seal *seal, const uint8_t *bytes, size_t n,
                      struct atoll_error *err)
{
    const char *what = NULL;

    if (!atoll_seal_is_sealed(bytes, n))
        what = "it is not a sealed value";
    else if (bytes[MAGIC_BYTES] != VERSION)
        what = "a newer version of Atoll wrote it";
    else if (memcmp(bytes, seal->head, ATOLL_SEAL_HEAD_BYTES) != 0)
        what = "it was sealed with another key; restore that file " ATOLL_SEAL_KEY_FILE
               " from a backup";
    return what ? atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG, "a stored value cannot be read: %s",
                             what)
                : 0;
}

int atoll_seal_read(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                    const void *sealed, size_t n, struct atoll_buf *out, struct atoll_error *err)
{
    const uint8_t *at = sealed, *random = at + ATOLL_SEAL_HEAD_BYTES;
    const uint8_t *text = random + SALT_BYTES + NONCE_BYTES;
    uint8_t tag[TAG_BYTES], *plain;
    EVP_CIPHER_CTX *ctx;
    int got = 0;
    bool done;

    if (check_head(seal, at, n, err) < 0)
        return -EBADMSG;
    n -= ATOLL_SEAL_EXTRA_BYTES;
    /* One byte more, so that there is room for the NUL of atoll_buf_str(): no copy is left behind. */
    if (reserve(out, n + 1, &plain, err) < 0)
        return -ENOBUFS;
    memcpy(tag, text + n, TAG_BYTES);
    ctx = begin(seal, place, random, false);
    done = ctx && (n == 0 || EVP_DecryptUpdate(ctx, plain, &got, text, (int)n) == 1) &&
           EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_GCM_SET_TAG, TAG_BYTES, tag) == 1 &&
           EVP_DecryptFinal_ex(ctx, plain + n, &got) == 1;
    EVP_CIPHER_CTX_free(ctx);
    if (!done) {
        explicit_bzero(plain, n);
        return atoll_fail(err, ATOLL_ERR_DATA_LOSS, EBADMSG,
                          "a stored value cannot be read: it was changed, or moved from its place");
    }
    atoll_buf_commit(out, n);
    return 0;
}
