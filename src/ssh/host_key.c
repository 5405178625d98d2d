#include "ssh/host_key.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"

#define KEY_FILE "ssh_host_key"
#define PUBLIC_FILE KEY_FILE ".pub"
#define FILE_MAX 8192

static int check_file(int fd, struct atoll_error *err)
{
    struct stat st;

    if (fstat(fd, &st) < 0)
        return atoll_fail_errno(err, errno, "the file " KEY_FILE);
    if (!S_ISREG(st.st_mode) || st.st_mode & 077)
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EPERM,
                          "the file " KEY_FILE " in the state directory is open to other users; "
                          "remove it to get a new key, or chmod it to 600");
    return 0;
}

static int parse(const char *text, ssh_key *ret_key, struct atoll_error *err)
{
    if (ssh_pki_import_privkey_base64(text, NULL, NULL, NULL, ret_key) == SSH_OK)
        return 0;
    return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                      "the file " KEY_FILE
                      " in the state directory holds no private key; remove it "
                      "to get a new one");
}

/* 1: *ret_key is set, 0: there is no file. */
static int load(int state_fd, ssh_key *ret_key, struct atoll_error *err)
{
    char text[FILE_MAX];
    ATOLL_AUTOCLOSE int fd =
        openat(state_fd, KEY_FILE, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    ssize_t n;
    int r;

    if (fd < 0)
        return errno == ENOENT ? 0 : atoll_fail_errno(err, errno, "open " KEY_FILE);
    r = check_file(fd, err);
    if (r < 0)
        return r;
    n = read(fd, text, sizeof(text) - 1);
    if (n < 0)
        return atoll_fail_errno(err, errno, "read " KEY_FILE);
    text[n] = '\0';
    r = parse(text, ret_key, err);
    explicit_bzero(text, sizeof(text));
    return r < 0 ? r : 1;
}

static int make(int state_fd, ssh_key *ret_key, struct atoll_error *err)
{
    ssh_key key = NULL;
    char *text = NULL;
    int r;

    if (ssh_pki_generate(SSH_KEYTYPE_ED25519, 0, &key) != SSH_OK ||
        ssh_pki_export_privkey_base64(key, NULL, NULL, NULL, &text) != SSH_OK) {
        ssh_key_free(key);
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "libssh cannot make a key");
    }
    r = atoll_fd_replace_file(state_fd, KEY_FILE, text, strlen(text));
    explicit_bzero(text, strlen(text));
    ssh_string_free_char(text);
    if (r < 0) {
        ssh_key_free(key);
        return atoll_fail_errno(err, -r, "write " KEY_FILE);
    }
    *ret_key = key;
    return 0;
}

/* Written at each start: after a crash in between the private half counts. */
static int write_public(int state_fd, ssh_key key, struct atoll_error *err)
{
    char line[1024], *text = NULL;
    int n, r;

    if (ssh_pki_export_pubkey_base64(key, &text) != SSH_OK)
        return atoll_fail(err, ATOLL_ERR_INTERNAL, EIO, "libssh cannot write the public key");
    n = snprintf(line, sizeof(line), "%s %s\n", ssh_key_type_to_char(ssh_key_type(key)), text);
    ssh_string_free_char(text);
    if (n < 0 || (size_t)n >= sizeof(line))
        return atoll_fail(err, ATOLL_ERR_FAILED_PRECONDITION, EINVAL,
                          "the key in " KEY_FILE " is too long; remove it to get a new one");
    r = atoll_fd_replace_file(state_fd, PUBLIC_FILE, line, (size_t)n);
    return r < 0 ? atoll_fail_errno(err, -r, "write " PUBLIC_FILE) : 0;
}

int atoll_ssh_host_key_open(int state_fd, ssh_key *ret_key, struct atoll_error *err)
{
    ssh_key key = NULL;
    int r = load(state_fd, &key, err);

    if (r == 0)
        r = make(state_fd, &key, err);
    if (r >= 0)
        r = write_public(state_fd, key, err);
    if (r < 0) {
        ssh_key_free(key);
        return r;
    }
    *ret_key = key;
    return 0;
}
