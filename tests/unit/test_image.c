/*
 * Names, documents and logins of images, by tables.
 */
#include "test.h"

#include <stdio.h>
#include <string.h>
#include "image/challenge.h"
#include "image/login.h"
#include "image/manifest.h"

#define HEX32 "0123456789abcdef0123456789abcdef"
#define HEX64 HEX32 HEX32
#define DIGEST "sha256:" HEX64
#define X16 "xxxxxxxxxxxxxxxx"
#define X128 X16 X16 X16 X16 X16 X16 X16 X16

/* References. */

static void names_are_read_as_docker_does(void **state)
{
    static const struct {
        const char *text, *host, *path, *tag, *digest, *brief;
    } rows[] = {
        {"alpine", "docker.io", "library/alpine", "latest", "", "alpine:latest"},
        {"alpine:3.19", "docker.io", "library/alpine", "3.19", "", "alpine:3.19"},
        {"user/app", "docker.io", "user/app", "latest", "", "user/app:latest"},
        {"docker.io/alpine", "docker.io", "library/alpine", "latest", "", "alpine:latest"},
        {"docker.io/library/alpine", "docker.io", "library/alpine", "latest", "", "alpine:latest"},
        {"index.docker.io/user/app:1", "docker.io", "user/app", "1", "", "user/app:1"},
        {"registry-1.docker.io/a", "docker.io", "library/a", "latest", "", "a:latest"},
        {"docker.io/a.b/c", "docker.io", "a.b/c", "latest", "", "docker.io/a.b/c:latest"},
        {"library/a/b", "docker.io", "library/a/b", "latest", "", "library/a/b:latest"},
        {"ghcr.io/x/y:tag", "ghcr.io", "x/y", "tag", "", "ghcr.io/x/y:tag"},
        {"ghcr.io/x", "ghcr.io", "x", "latest", "", "ghcr.io/x:latest"},
        {"localhost/x", "localhost", "x", "latest", "", "localhost/x:latest"},
        {"localhost:5000/x", "localhost:5000", "x", "latest", "", "localhost:5000/x:latest"},
        {"127.0.0.1:5000/a/b:c", "127.0.0.1:5000", "a/b", "c", "", "127.0.0.1:5000/a/b:c"},
        {"[::1]:5000/x", "[::1]:5000", "x", "latest", "", "[::1]:5000/x:latest"},
        {"[fe80::1]/x", "[fe80::1]", "x", "latest", "", "[fe80::1]/x:latest"},
        {"Host/x", "Host", "x", "latest", "", "Host/x:latest"},
        {"host:5000", "docker.io", "library/host", "5000", "", "host:5000"},
        {"localhost", "docker.io", "library/localhost", "latest", "", "localhost:latest"},
        {"x@" DIGEST, "docker.io", "library/x", "", DIGEST, "x@" DIGEST},
        {"x:1@" DIGEST, "docker.io", "library/x", "1", DIGEST, "x:1@" DIGEST},
        {"r.io:1/x:1@" DIGEST, "r.io:1", "x", "1", DIGEST, "r.io:1/x:1@" DIGEST},
        {"a.b_c__d-e---f", "docker.io", "library/a.b_c__d-e---f", "latest", "",
         "a.b_c__d-e---f:latest"},
        {"x:_A.b-C", "docker.io", "library/x", "_A.b-C", "", "x:_A.b-C"},
        {"x:" X128, "docker.io", "library/x", X128, "", "x:" X128},
        {"xn--7o8h.com/x", "xn--7o8h.com", "x", "latest", "", "xn--7o8h.com/x:latest"},
    };
    char whole[ATOLL_IMAGE_REFERENCE_MAX], text[ATOLL_IMAGE_REFERENCE_MAX];
    struct atoll_image_reference ref, again;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        if (atoll_image_reference_parse(rows[i].text, &ref, &err) < 0)
            fail_msg("%s: %s", rows[i].text, err.text);
        assert_string_equal(ref.host, rows[i].host);
        assert_string_equal(ref.path, rows[i].path);
        assert_string_equal(ref.tag, rows[i].tag);
        assert_string_equal(ref.digest, rows[i].digest);
        assert_string_equal(atoll_image_reference_short(&ref, text), rows[i].brief);
        atoll_image_reference_text(&ref, whole);
        assert_int_equal(atoll_image_reference_parse(whole, &again, &err), 0);
        assert_string_equal(atoll_image_reference_text(&again, text), whole);
    }
}

static void other_names_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "/",
        "/x",
        "x/",
        "x//y",
        "Alpine",
        "x:",
        "x:a b",
        "x:-a",
        "x:.a",
        "x@",
        "x@sha256:12",
        "a..b",
        "a___b",
        ".a",
        "a.",
        "-a",
        "a-",
        "_a",
        "a_",
        "a/.b",
        "x@sha512:" HEX64,
        "x@" DIGEST "0",
        "x y",
        "x\n",
        "x?y",
        "x#y",
        "x%41",
        "a.b/",
        "a.b:/x",
        "a.b:x/y",
        "a.b:123456/x",
        "-a.b/x",
        "a-.b/x",
        "a..b/x",
        "[::1/x",
        "[]/x",
        "[::g]/x",
        "[::1]x/y",
        "[::1]:/x",
        "x:" X128 "x",
        HEX64,
        "https://x.io/y",
        "x/Y",
        "docker.io/",
        "@" DIGEST,
        ":tag",
        "\xc3\xa9",
        "x@SHA256:" HEX64,
        "x:a@b@" DIGEST,
        "a@" DIGEST "@" DIGEST,
        X128 X128,
    };
    struct atoll_image_reference ref;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        if (atoll_image_reference_parse(rows[i], &ref, &err) == 0)
            fail_msg("\"%s\" was accepted", rows[i]);
        assert_int_equal(err.kind, ATOLL_ERR_INVALID_ARGUMENT);
    }
}

static void digests(void **state)
{
    char digest[ATOLL_IMAGE_DIGEST_MAX];

    (void)state;
    atoll_image_digest("abc", 3, digest);
    assert_string_equal(digest,
                        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_true(atoll_image_is_digest(digest));
    assert_false(atoll_image_is_digest("sha256:" HEX32));
    assert_false(atoll_image_is_digest("sha256:" HEX32 "ABCDEF" HEX32));
}

/* Documents. */

#define CONFIG_MEDIA "application/vnd.oci.image.config.v1+json"
#define LAYER_MEDIA "application/vnd.oci.image.layer.v1.tar+gzip"
#define DESCRIPTOR(media) "{\"mediaType\":\"" media "\",\"digest\":\"" DIGEST "\",\"size\":7}"

static void kinds_of_documents(void **state)
{
    static const struct {
        const char *text, *media;
        int kind; /* -1: refused */
    } rows[] = {
        {"{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_INDEX "\"}", NULL, ATOLL_IMAGE_IS_INDEX},
        {"{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_LIST "\"}", NULL, ATOLL_IMAGE_IS_INDEX},
        {"{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_DOCKER "\"}", NULL, ATOLL_IMAGE_IS_MANIFEST},
        {"{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_MANIFEST "\"}", ATOLL_IMAGE_MEDIA_INDEX,
         ATOLL_IMAGE_IS_MANIFEST},
        {"{}", ATOLL_IMAGE_MEDIA_INDEX "; charset=utf-8", ATOLL_IMAGE_IS_INDEX},
        {"{\"layers\":[]}", "text/plain", ATOLL_IMAGE_IS_MANIFEST},
        {"{\"manifests\":[]}", NULL, ATOLL_IMAGE_IS_INDEX},
        {"{}", NULL, -1},
        {"{\"mediaType\":7}", NULL, -1},
        {"{\"mediaType\":\"application/vnd.cncf.helm\"}", ATOLL_IMAGE_MEDIA_INDEX, -1},
        {"{\"schemaVersion\":1,\"layers\":[]}", NULL, -1},
        {"[]", NULL, -1},
        {"", NULL, -1},
        {"{\"a\":1,\"a\":2}", ATOLL_IMAGE_MEDIA_INDEX, -1},
    };
    enum atoll_image_document kind;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        int r = atoll_image_document_kind(rows[i].text, strlen(rows[i].text), rows[i].media, &kind,
                                          &err);
        if ((r == 0) != (rows[i].kind >= 0))
            fail_msg("%s: %d", rows[i].text, r);
        if (r == 0)
            assert_int_equal((int)kind, rows[i].kind);
        else
            assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    }
}

#define ENTRY(digit, platform)                                                                \
    "{\"mediaType\":\"" ATOLL_IMAGE_MEDIA_MANIFEST "\",\"size\":1,\"digest\":\"sha256:" digit \
    "123456789abcdef" HEX32 "0123456789abcdef\"" platform "}"
#define PLATFORM(os, arch, more) \
    ",\"platform\":{\"os\":\"" os "\",\"architecture\":\"" arch "\"" more "}"

#define VARIANT(v) ",\"variant\":\"" v "\""
#define AMD64 ENTRY("0", PLATFORM("linux", "amd64", ""))
#define ARM5 ENTRY("1", PLATFORM("linux", "arm", VARIANT("v5")))
#define ARM6 ENTRY("2", PLATFORM("linux", "arm", VARIANT("v6")))
#define ARM64 ENTRY("3", PLATFORM("linux", "arm64", VARIANT("v8")))
#define WINDOWS ENTRY("4", PLATFORM("windows", "amd64", ",\"os.version\":\"10\""))
#define NOTE ",\"annotations\":{\"vnd.docker.reference.type\":\"attestation-manifest\"}"
#define ATTESTATION ENTRY("5", PLATFORM("unknown", "unknown", "") NOTE)
#define RISCV ENTRY("6", PLATFORM("linux", "riscv64", ""))

static void the_platform_is_chosen(void **state)
{
    static const char index[] = "{\"manifests\":[" AMD64 "," ARM5 "," ARM6 "," ARM64 "," WINDOWS
                                "," ATTESTATION "," RISCV "]}";
    static const struct {
        const char *platform;
        char digit;
    } rows[] = {
        {"linux/amd64", '0'},   {"linux/arm/v7", '2'}, {"linux/arm", '2'},
        {"linux/arm/v5", '1'},  {"linux/arm64", '3'},  {"linux/arm64/v8", '3'},
        {"linux/aarch64", '3'}, {"linux/x86_64", '0'}, {"windows/amd64", '4'},
        {"linux/riscv64", '6'},
    };
    struct atoll_image_descriptor d;
    struct atoll_image_platform p;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        assert_int_equal(atoll_image_platform_parse(rows[i].platform, &p, &err), 0);
        if (atoll_image_index_choose(index, strlen(index), &p, &d, &err) < 0)
            fail_msg("%s: %s", rows[i].platform, err.text);
        assert_int_equal(d.digest[7], rows[i].digit);
    }
    assert_int_equal(atoll_image_platform_parse("linux/s390x", &p, &err), 0);
    assert_true(atoll_image_index_choose(index, strlen(index), &p, &d, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
    assert_non_null(strstr(err.text, "linux/s390x"));
    assert_non_null(strstr(err.text, "linux/arm/v6"));
    assert_null(strstr(err.text, "unknown"));
}

static void platforms_are_checked(void **state)
{
    static const char *const bad[] = {
        "",          "linux",   "linux/", "/amd64", "linux/amd64/v1/x", "linux/amd64/",
        "linux/a b", "linux//x"};
    struct atoll_image_platform p;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_true(atoll_image_platform_parse(bad[i], &p, &err) < 0);
    atoll_image_platform_here(&p);
    assert_string_equal(p.os, "linux");
    assert_true(*p.arch);
}

static void an_index_of_one_needs_no_platform(void **state)
{
    static const char one[] = "{\"manifests\":[" ENTRY("7", "") "]}";
    static const char two[] = "{\"manifests\":[" ENTRY("7", "") "," ENTRY("8", "") "]}";
    struct atoll_image_platform p;
    struct atoll_image_descriptor d;
    struct atoll_error err;

    (void)state;
    atoll_image_platform_here(&p);
    assert_int_equal(atoll_image_index_choose(one, strlen(one), &p, &d, &err), 0);
    assert_int_equal(d.digest[7], '7');
    assert_true(atoll_image_index_choose(two, strlen(two), &p, &d, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_NOT_FOUND);
}

static void manifests(void **state)
{
    static const char good[] =
        "{\"schemaVersion\":2,\"config\":" DESCRIPTOR(CONFIG_MEDIA) ",\"layers\":[" DESCRIPTOR(
            LAYER_MEDIA) "," DESCRIPTOR("application/vnd.docker.image.rootfs.diff.tar.gzip") "]}";
    static const char *const bad[] = {
        "{}",
        "{\"config\":" DESCRIPTOR(CONFIG_MEDIA) "}",
        "{\"layers\":[]}",
        "{\"config\":" DESCRIPTOR("application/vnd.cncf.helm.config.v1+json") ",\"layers\":[]}",
        "{\"config\":" DESCRIPTOR(CONFIG_MEDIA) ",\"layers\":[{}]}",
        "{\"config\":" DESCRIPTOR(CONFIG_MEDIA) ",\"layers\":[" DESCRIPTOR(
            "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip") "]}",
        "{\"config\":" DESCRIPTOR(CONFIG_MEDIA) ",\"layers\":[" DESCRIPTOR(
            "application/vnd.oci.image.layer.v1.tar+encrypted") "]}",
        "{\"config\":{\"mediaType\":\"" CONFIG_MEDIA "\",\"digest\":\"" DIGEST
        "\",\"size\":-1},\"layers\":[]}",
        "{\"config\":{\"mediaType\":\"" CONFIG_MEDIA
        "\",\"digest\":\"sha256:../../etc\",\"size\":1},\"layers\":[]}",
    };
    struct atoll_image_manifest m, again;
    struct atoll_error err;
    char *text;

    (void)state;
    assert_int_equal(atoll_image_manifest_parse(good, strlen(good), &m, &err), 0);
    assert_int_equal(m.layer_count, 2);
    assert_int_equal(m.layers[1].size, 7);
    text = atoll_image_manifest_write(&m);
    assert_int_equal(atoll_image_manifest_parse(text, strlen(text), &again, &err), 0);
    assert_memory_equal(&m, &again, sizeof(m));
    free(text);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        if (atoll_image_manifest_parse(bad[i], strlen(bad[i]), &m, &err) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    }
}

static void layers_are_bounded(void **state)
{
    static struct atoll_image_manifest m;
    ATOLL_AUTOFREE char *text = calloc(1, 1 << 20);
    struct atoll_error err;
    size_t at = (size_t)sprintf(text, "{\"config\":" DESCRIPTOR(CONFIG_MEDIA) ",\"layers\":[");

    (void)state;
    for (size_t i = 0; i <= ATOLL_IMAGE_LAYERS_MAX; i++)
        at += (size_t)sprintf(text + at, "%s" DESCRIPTOR(LAYER_MEDIA), i ? "," : "");
    (void)sprintf(text + at, "]}");
    assert_true(atoll_image_manifest_parse(text, strlen(text), &m, &err) < 0);
    assert_int_equal(err.kind, ATOLL_ERR_RESOURCE_EXHAUSTED);
}

#define ROOTFS "\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[\"" DIGEST "\"]}"

static void configs(void **state)
{
    static const char good[] =
        "{\"architecture\":\"amd64\",\"os\":\"linux\"," ROOTFS
        ",\"config\":{\"Env\":[\"A=b\",\"C=\"],"
        "\"Cmd\":null,\"User\":\"1000:1000\",\"WorkingDir\":\"/w\",\"ExposedPorts\":{\"80/tcp\":{}},"
        "\"Volumes\":null,\"Labels\":{\"a\":\"b\"},\"Healthcheck\":{\"Test\":[\"NONE\"]},\"New\":1}}";
    static const char *const bad[] = {
        "{}",
        "{\"rootfs\":{\"diff_ids\":[\"x\"]}}",
        "{" ROOTFS ",\"os\":7}",
        "{" ROOTFS ",\"config\":[]}",
        "{" ROOTFS ",\"config\":{\"Env\":\"A=b\"}}",
        "{" ROOTFS ",\"config\":{\"Env\":[\"=b\"]}}",
        "{" ROOTFS ",\"config\":{\"Env\":[7]}}",
        "{" ROOTFS ",\"config\":{\"Cmd\":\"sh\"}}",
        "{" ROOTFS ",\"config\":{\"Cmd\":[\"a\\u0000b\"]}}",
        "{" ROOTFS ",\"config\":{\"User\":7}}",
        "{" ROOTFS ",\"config\":{\"Labels\":{\"a\":1}}}",
        "{" ROOTFS ",\"config\":{\"ExposedPorts\":[]}}",
        "{" ROOTFS ",\"config\":{\"Healthcheck\":1}}",
    };
    struct atoll_image_config c;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_image_config_parse(good, strlen(good), &c, &err), 0);
    assert_string_equal(c.platform.arch, "amd64");
    assert_int_equal(c.diff_id_count, 1);
    assert_string_equal(c.diff_ids[0], DIGEST);
    assert_null(json_object_get(c.config, "Cmd"));
    assert_null(json_object_get(c.config, "Volumes"));
    assert_non_null(json_object_get(c.config, "New"));
    atoll_image_config_done(&c);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++) {
        if (atoll_image_config_parse(bad[i], strlen(bad[i]), &c, &err) == 0)
            fail_msg("accepted: %s", bad[i]);
        assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    }
}

static void a_config_without_config_is_empty(void **state)
{
    static const char text[] = "{\"config\":null," ROOTFS "}";
    struct atoll_image_config c;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_image_config_parse(text, strlen(text), &c, &err), 0);
    assert_int_equal(json_object_size(c.config), 0);
    assert_true(json_is_object(c.config));
    atoll_image_config_done(&c);
}

/* Logins. */

static void logins_are_found(void **state)
{
    static const char file[] =
        "{\"auths\":{"
        "\"https://index.docker.io/v1/\":{\"auth\":\"aHViOnB3OnB3\"},"
        "\"ghcr.io\":{\"auth\":\"Z2g6cHc=\"},"
        "\"http://localhost:5000\":{\"username\":\"u\",\"password\":\"p\"},"
        "\"azure.example\":{\"auth\":\"PHRva2VuPjo=\",\"identitytoken\":\"refresh\"},"
        "\"token.example\":{\"registrytoken\":\"bearer\"},"
        "\"stored.example\":{},"
        "\"path.example/some/path\":{\"auth\":\"Z2g6cHc=\"}},"
        "\"credsStore\":\"desktop\",\"credHelpers\":{\"gcr.io\":\"gcloud\",\"bad.example\":\"../x\"}}";
    static const struct {
        const char *host, *user, *password, *identity, *token, *helper;
    } rows[] = {
        {"docker.io", "hub", "pw:pw", NULL, NULL, ""},
        {"ghcr.io", "gh", "pw", NULL, NULL, ""},
        {"GHCR.io", "gh", "pw", NULL, NULL, ""},
        {"localhost:5000", "u", "p", NULL, NULL, ""},
        {"localhost", NULL, NULL, NULL, NULL, ""},
        {"azure.example", NULL, NULL, "refresh", NULL, ""},
        {"token.example", NULL, NULL, NULL, "bearer", ""},
        {"stored.example", NULL, NULL, NULL, NULL, "docker-credential-desktop"},
        {"gcr.io", NULL, NULL, NULL, NULL, "docker-credential-gcloud"},
        {"bad.example", NULL, NULL, NULL, NULL, ""},
        {"path.example", "gh", "pw", NULL, NULL, ""},
        {"other.example", NULL, NULL, NULL, NULL, ""},
    };
    struct atoll_image_login l;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        const char *const want[] = {rows[i].user, rows[i].password, rows[i].identity,
                                    rows[i].token};
        const char *have[4];
        if (atoll_image_login_find(file, strlen(file), rows[i].host, &l, &err) < 0)
            fail_msg("%s: %s", rows[i].host, err.text);
        have[0] = l.user;
        have[1] = l.password;
        have[2] = l.identity_token;
        have[3] = l.registry_token;
        for (size_t k = 0; k < 4; k++) {
            if (!want[k] != !have[k])
                fail_msg("%s: %s", rows[i].host, have[k] ? have[k] : "nothing");
            if (want[k])
                assert_string_equal(have[k], want[k]);
        }
        assert_string_equal(l.helper, rows[i].helper);
        atoll_image_login_done(&l);
    }
}

static void bad_logins_are_refused(void **state)
{
    static const char *const rows[] = {
        "",
        "[]",
        "{\"auths\":{\"h\":7}}",
        "{\"auths\":{\"h\":{\"auth\":\"***\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"bm9jb2xvbg==\"}}}",
        "{\"auths\":{\"h\":{\"auth\":\"YQBiOmM=\"}}}",
    };
    struct atoll_image_login l;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        if (atoll_image_login_find(rows[i], strlen(rows[i]), "h", &l, &err) == 0)
            fail_msg("accepted: %s", rows[i]);
        assert_int_equal(err.kind, ATOLL_ERR_FAILED_PRECONDITION);
    }
    assert_int_equal(atoll_image_login_load("/nonexistent/config.json", "h", &l, &err), 0);
    assert_null(l.user);
}

static void challenges(void **state)
{
    static const struct {
        const char *header;
        enum atoll_image_challenge_kind kind;
        const char *realm, *service;
    } rows[] = {
        {"Bearer realm=\"https://auth.docker.io/token\",service=\"registry.docker.io\"",
         ATOLL_IMAGE_BEARER, "https://auth.docker.io/token", "registry.docker.io"},
        {"bearer service=s , realm=http://a/b?c", ATOLL_IMAGE_BEARER, "http://a/b?c", "s"},
        {"Basic realm=\"x\"", ATOLL_IMAGE_BASIC, "x", ""},
        {"Basic", ATOLL_IMAGE_BASIC, "", ""},
        {"Basic realm=\"x\", Bearer realm=\"https://t\",scope=\"a,b\"", ATOLL_IMAGE_BEARER,
         "https://t", ""},
        {"Bearer realm=\"https://t\", Basic realm=\"x\"", ATOLL_IMAGE_BEARER, "https://t", ""},
        {"Bearer realm=\"a\\\"b\"", ATOLL_IMAGE_BEARER, "a\"b", ""},
        {"Bearer realm=\"open", ATOLL_IMAGE_BEARER, "open", ""},
        {"Bearer", ATOLL_IMAGE_NO_CHALLENGE, "", ""},
        {"Negotiate, Digest realm=\"d\", Basic realm=\"b\"", ATOLL_IMAGE_BASIC, "b", ""},
        {"", ATOLL_IMAGE_NO_CHALLENGE, "", ""},
        {"=,=,=", ATOLL_IMAGE_NO_CHALLENGE, "", ""},
        {"NTLM abc==", ATOLL_IMAGE_NO_CHALLENGE, "", ""},
    };
    struct atoll_image_challenge c;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        atoll_image_challenge_parse(rows[i].header, &c);
        if (c.kind != rows[i].kind)
            fail_msg("%s: %d", rows[i].header, (int)c.kind);
        assert_string_equal(c.realm, rows[i].realm);
        assert_string_equal(c.service, rows[i].service);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_read_as_docker_does),
        cmocka_unit_test(other_names_are_refused),
        cmocka_unit_test(digests),
        cmocka_unit_test(kinds_of_documents),
        cmocka_unit_test(the_platform_is_chosen),
        cmocka_unit_test(platforms_are_checked),
        cmocka_unit_test(an_index_of_one_needs_no_platform),
        cmocka_unit_test(manifests),
        cmocka_unit_test(layers_are_bounded),
        cmocka_unit_test(configs),
        cmocka_unit_test(a_config_without_config_is_empty),
        cmocka_unit_test(logins_are_found),
        cmocka_unit_test(bad_logins_are_refused),
        cmocka_unit_test(challenges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
