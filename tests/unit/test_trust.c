/* The trust store of the host template, with the CA of atoll-egress in it. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/fd.h"
#include "net/tls_cert.h"
#include "sandbox/trust.h"
#include "sys/tree.h"

#include <cmocka.h>

static char dir[64], etc[80];
static int state_fd, etc_fd;

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/atoll-test-trust-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(etc, sizeof(etc), "%s/etc", dir);
    state_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(state_fd, "etc", 0755), 0);
    etc_fd = open(etc, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_int_equal(mkdirat(etc_fd, "ssl", 0755), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close(etc_fd);
    assert_int_equal(atoll_tree_remove(state_fd, "etc"), 0);
    (void)unlinkat(state_fd, "egress-ca.pem", 0);
    (void)unlinkat(state_fd, "egress-ca-key.pem", 0);
    close(state_fd);
    assert_int_equal(rmdir(dir), 0);
    return 0;
}

static void put(const char *path, const char *text)
{
    int fd = openat(etc_fd, path, O_WRONLY | O_CREAT | O_CLOEXEC, 0444);

    assert_int_equal(atoll_fd_write_all(fd, text, strlen(text)), 0);
    close(fd);
}

/* Whether a certificate of the CA is valid for a program that trusts the file or the directory. */
static bool trusts(X509 *leaf, const char *file, const char *folder)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ctx = X509_STORE_CTX_new();
    bool ok;

    assert_int_equal(X509_STORE_load_locations(store, file, folder), 1);
    assert_int_equal(X509_STORE_CTX_init(ctx, store, leaf, NULL), 1);
    ok = X509_verify_cert(ctx) == 1;
    X509_STORE_CTX_free(ctx);
    X509_STORE_free(store);
    return ok;
}

static X509 *make_leaf(void)
{
    EVP_PKEY *authority_key, *key = EVP_EC_gen("P-256");
    X509 *authority, *leaf;

    assert_int_equal(atoll_tls_cert_egress(state_fd, &authority, &authority_key, NULL), 0);
    leaf = atoll_tls_cert_issue(authority, authority_key, key, "a.test");
    assert_non_null(leaf);
    X509_free(authority);
    EVP_PKEY_free(authority_key);
    EVP_PKEY_free(key);
    return leaf;
}

static void test_no_authority(void **state)
{
    (void)state;
    assert_int_equal(atoll_trust_add(state_fd, etc_fd, NULL), 0);
    assert_int_equal(faccessat(etc_fd, "ssl/certs", F_OK, 0), -1);
}

static void test_added_where_programs_look(void **state)
{
    char bundle[120], folder[120], java[64 * 1024];
    X509 *leaf = make_leaf();
    struct stat st;
    int fd, n;

    (void)state;
    assert_int_equal(mkdirat(etc_fd, "ssl/certs", 0755), 0);
    assert_int_equal(mkdirat(etc_fd, "ssl/certs/java", 0755), 0);
    put("ssl/certs/ca-certificates.crt", "# the host's, without a line end");
    put("ssl/certs/java/cacerts", "old");
    snprintf(bundle, sizeof(bundle), "%s/ssl/certs/ca-certificates.crt", etc);
    snprintf(folder, sizeof(folder), "%s/ssl/certs", etc);
    assert_false(trusts(leaf, NULL, folder));
    assert_int_equal(atoll_trust_add(state_fd, etc_fd, NULL), 0);
    assert_true(trusts(leaf, bundle, NULL));
    assert_true(trusts(leaf, NULL, folder));
    assert_int_equal(fstatat(etc_fd, "ssl/certs/ca-certificates.crt", &st, 0), 0);
    assert_int_equal(st.st_mode & 0777, 0644);
    /* Java's store: its header, and one certificate. */
    fd = openat(etc_fd, "ssl/certs/java/cacerts", O_RDONLY | O_CLOEXEC);
    n = (int)read(fd, java, sizeof(java));
    close(fd);
    assert_true(n > 300);
    assert_memory_equal(java, "\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1\0\0\0\2\0\3ca1", 21);
    X509_free(leaf);
}

static void test_a_host_without_a_bundle(void **state)
{
    char folder[120];
    X509 *leaf = make_leaf();

    (void)state;
    snprintf(folder, sizeof(folder), "%s/ssl/certs", etc);
    assert_int_equal(atoll_trust_add(state_fd, etc_fd, NULL), 0);
    assert_true(trusts(leaf, NULL, folder));
    assert_int_equal(faccessat(etc_fd, "ssl/certs/java", F_OK, 0), -1);
    X509_free(leaf);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_no_authority),
        TEST(test_added_where_programs_look),
        TEST(test_a_host_without_a_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
