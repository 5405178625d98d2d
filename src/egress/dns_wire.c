#include "egress/dns_wire.h"

#include <errno.h>
#include <string.h>

#define QR 0x8000
#define OPCODE 0x7800
#define TC 0x0200
#define RD 0x0100
#define RA 0x0080
#define CD 0x0010
#define RCODE 0x000f

#define CLASS_IN 1
#define POINTER 0xc0
#define OPT_LEN 11
#define RECORD_HEAD 10          /* type, class, TTL, length of the data */
#define ADDITIONAL_MAX 8        /* records of a question: OPT, TSIG and the like */
#define QUESTION_POINTER 0xc00c /* the name of the question */

static uint16_t get16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}

static size_t put16(uint8_t *p, unsigned value)
{
    p[0] = (uint8_t)(value >> 8);
    p[1] = (uint8_t)value;
    return 2;
}

static uint8_t lower(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 'a' - 'A') : c;
}

/* Appends a label to the text of a name. */
static bool add_label(const uint8_t *label, size_t n, char *text, size_t *len)
{
    if (*len + (*len > 0) + n >= ATOLL_DNS_NAME_MAX)
        return false;
    if (*len > 0)
        text[(*len)++] = '.';
    for (size_t i = 0; i < n; i++) {
        if (label[i] <= ' ' || label[i] > '~' || label[i] == '.' || label[i] == '\\')
            return false;
        text[(*len)++] = (char)lower(label[i]);
    }
    text[*len] = '\0';
    return true;
}

/* Moves *at behind the name at *at. -EBADMSG. */
static int skip_name(const uint8_t *bytes, size_t n, size_t *at)
{
    size_t p = *at, before = *at, total = 0;
    bool jumped = false;

    while (p < n && bytes[p] != 0) {
        if ((bytes[p] & POINTER) == POINTER) {
            size_t to;
            if (p + 2 > n)
                return -EBADMSG;
            to = get16(bytes + p) & 0x3fff;
            if (!jumped)
                *at = p + 2;
            if (to >= before || to < ATOLL_DNS_HEADER)
                return -EBADMSG;
            jumped = true;
            p = before = to;
            continue;
        }
        if (bytes[p] > ATOLL_DNS_LABEL_MAX)
            return -EBADMSG;
        total += bytes[p] + 1u;
        p += bytes[p] + 1u;
        if (total >= ATOLL_DNS_NAME_WIRE_MAX)
            return -EBADMSG;
    }
    if (p >= n)
        return -EBADMSG;
    if (!jumped)
        *at = p + 1;
    return 0;
}

/* Reads the name of the question, which nothing precedes: it has no pointers. FORMERR. */
static int read_name(const uint8_t *bytes, size_t n, size_t *at, char *text)
{
    size_t p = *at, len = 0;

    text[0] = '\0';
    while (p < n && bytes[p] != 0) {
        size_t label = bytes[p];
        if (label > ATOLL_DNS_LABEL_MAX || p + 1 + label >= n ||
            !add_label(bytes + p + 1, label, text, &len))
            return ATOLL_DNS_FORMERR;
        p += 1 + label;
    }
    if (p >= n)
        return ATOLL_DNS_FORMERR;
    *at = p + 1;
    return 0;
}

struct record {
    uint16_t type, class;
    uint32_t ttl;
};

/* Moves *at behind the record at *at. -EBADMSG. */
static int read_record(const uint8_t *bytes, size_t n, size_t *at, struct record *ret)
{
    size_t length;
    int r = skip_name(bytes, n, at);

    if (r < 0)
        return r;
    if (n - *at < RECORD_HEAD)
        return -EBADMSG;
    ret->type = get16(bytes + *at);
    ret->class = get16(bytes + *at + 2);
    ret->ttl = (uint32_t)get16(bytes + *at + 4) << 16 | get16(bytes + *at + 6);
    length = get16(bytes + *at + 8);
    *at += RECORD_HEAD;
    if (n - *at < length)
        return -EBADMSG;
    *at += length;
    return 0;
}

/* Finds OPT among the additional records of a question. */
static int read_additional(const uint8_t *bytes, size_t n, size_t at, struct atoll_dns_question *q)
{
    unsigned count = get16(bytes + 10);

    if (count > ADDITIONAL_MAX)
        return ATOLL_DNS_FORMERR;
    for (; count > 0; count--) {
        struct record record;
        if (read_record(bytes, n, &at, &record) < 0)
            return ATOLL_DNS_FORMERR;
        if (record.type != ATOLL_DNS_OPT)
            continue;
        if (q->edns)
            return ATOLL_DNS_FORMERR;
        q->edns = true;
        q->udp_max =
            (uint16_t)ATOLL_MIN(ATOLL_MAX(record.class, ATOLL_DNS_UDP_PLAIN), ATOLL_DNS_UDP_MAX);
        if ((record.ttl >> 16 & 0xff) != 0)
            return ATOLL_DNS_BADVERS;
    }
    return 0;
}

int atoll_dns_parse_question(const uint8_t *bytes, size_t n, struct atoll_dns_question *ret)
{
    size_t at = ATOLL_DNS_HEADER;
    uint16_t flags;
    int r;

    if (n < ATOLL_DNS_HEADER || n > ATOLL_DNS_MESSAGE_MAX || (get16(bytes + 2) & QR))
        return -EBADMSG;
    flags = get16(bytes + 2);
    *ret = (struct atoll_dns_question){
        .id = get16(bytes), .flags = flags & (RD | CD), .udp_max = ATOLL_DNS_UDP_PLAIN};
    if (flags & OPCODE)
        return ATOLL_DNS_NOTIMP;
    if (get16(bytes + 4) != 1 || get16(bytes + 6) != 0 || get16(bytes + 8) != 0)
        return ATOLL_DNS_FORMERR;
    r = read_name(bytes, n, &at, ret->name);
    if (r != 0 || n - at < 4)
        return ATOLL_DNS_FORMERR;
    ret->type = get16(bytes + at);
    at += 4;
    ret->wire_len = at - ATOLL_DNS_HEADER;
    memcpy(ret->wire, bytes + ATOLL_DNS_HEADER, ret->wire_len);
    if (get16(bytes + at - 2) != CLASS_IN)
        return ATOLL_DNS_REFUSED;
    return read_additional(bytes, n, at, ret);
}

/* Header and question. */
static size_t write_head(const struct atoll_dns_question *q, uint16_t id, unsigned flags,
                         uint8_t *out)
{
    memset(out, 0, ATOLL_DNS_HEADER);
    (void)put16(out, id);
    (void)put16(out + 2, flags);
    (void)put16(out + 4, q->wire_len > 0);
    memcpy(out + ATOLL_DNS_HEADER, q->wire, q->wire_len);
    return ATOLL_DNS_HEADER + q->wire_len;
}

static size_t write_opt(uint8_t *out, size_t at, unsigned udp_size, unsigned rcode)
{
    (void)put16(out + 10, 1u);
    memset(out + at, 0, OPT_LEN);
    (void)put16(out + at + 1, ATOLL_DNS_OPT);
    (void)put16(out + at + 3, udp_size);
    out[at + 5] = (uint8_t)(rcode >> 4);
    return at + OPT_LEN;
}

static size_t write_reply_head(const struct atoll_dns_question *q, unsigned flags, uint8_t *out)
{
    return write_head(q, q->id, QR | RA | q->flags | flags, out);
}

static size_t write_reply_end(const struct atoll_dns_question *q, unsigned rcode, uint8_t *out,
                              size_t at)
{
    return q->edns ? write_opt(out, at, ATOLL_DNS_UDP_MAX, rcode) : at;
}

static size_t write_truncated(const struct atoll_dns_question *q, unsigned rcode, uint8_t *out)
{
    return write_reply_end(q, rcode, out, write_reply_head(q, TC | (rcode & RCODE), out));
}

/* Room for records after the question. */
static size_t room_for(const struct atoll_dns_question *q, size_t cap)
{
    return cap - ATOLL_DNS_HEADER - q->wire_len - (q->edns ? OPT_LEN : 0);
}

size_t atoll_dns_write_empty(const struct atoll_dns_question *q, unsigned rcode, uint8_t *out,
                             size_t cap)
{
    (void)cap; /* header, question and OPT are always below ATOLL_DNS_UDP_PLAIN */
    return write_reply_end(q, rcode, out, write_reply_head(q, rcode & RCODE, out));
}

static size_t write_address(uint16_t type, const struct in6_addr *address, uint32_t ttl_s,
                            uint8_t *out)
{
    size_t length = type == ATOLL_DNS_A ? 4 : 16, at = 0;

    at += put16(out + at, QUESTION_POINTER);
    at += put16(out + at, type);
    at += put16(out + at, CLASS_IN);
    at += put16(out + at, ttl_s >> 16);
    at += put16(out + at, ttl_s & 0xffff);
    at += put16(out + at, (unsigned)length);
    memcpy(out + at, address->s6_addr + 16 - length, length);
    return at + length;
}

size_t atoll_dns_write_addresses(const struct atoll_dns_question *q,
                                 const struct in6_addr *addresses, size_t count, uint32_t ttl_s,
                                 uint8_t *out, size_t cap)
{
    size_t at = write_reply_head(q, 0, out);
    size_t length = 2 + RECORD_HEAD + (q->type == ATOLL_DNS_A ? 4 : 16), room = room_for(q, cap);
    unsigned written = 0;

    for (size_t i = 0; i < count; i++) {
        if (IN6_IS_ADDR_V4MAPPED(&addresses[i]) != (q->type == ATOLL_DNS_A))
            continue;
        if (room < length)
            return write_truncated(q, 0, out);
        room -= length;
        at += write_address(q->type, &addresses[i], ttl_s, out + at);
        written++;
    }
    (void)put16(out + 6, written);
    return write_reply_end(q, 0, out, at);
}

size_t atoll_dns_write_question(const struct atoll_dns_question *q, uint16_t id, uint8_t *out,
                                size_t cap)
{
    (void)cap;
    return write_opt(out, write_head(q, id, RD | (q->flags & CD), out), ATOLL_DNS_UDP_ASKED, 0);
}

static bool is_same_question(const uint8_t *bytes, const struct atoll_dns_question *q)
{
    for (size_t i = 0; i < q->wire_len; i++)
        if (lower(bytes[i]) != lower(q->wire[i]))
            return false;
    return true;
}

int atoll_dns_parse_answer(const uint8_t *bytes, size_t n, const struct atoll_dns_question *q,
                           uint16_t id, struct atoll_dns_answer *ret)
{
    size_t at = ATOLL_DNS_HEADER + q->wire_len;
    unsigned answers, records;
    uint16_t flags;

    if (n < at || n > ATOLL_DNS_MESSAGE_MAX || get16(bytes) != id || get16(bytes + 4) != 1 ||
        !is_same_question(bytes + ATOLL_DNS_HEADER, q))
        return -EBADMSG;
    flags = get16(bytes + 2);
    if (!(flags & QR) || (flags & OPCODE))
        return -EBADMSG;
    *ret = (struct atoll_dns_answer){
        .bytes = bytes, .rcode = flags & RCODE, .truncated = (flags & TC) != 0};
    answers = get16(bytes + 6);
    records = answers + get16(bytes + 8);
    for (unsigned i = 0; i < records && !ret->truncated; i++) {
        struct record record;
        if (read_record(bytes, n, &at, &record) < 0)
            return -EBADMSG;
        if (record.type == ATOLL_DNS_A || record.type == ATOLL_DNS_AAAA)
            ret->has_address = true;
    }
    ret->kept = at;
    return 0;
}

size_t atoll_dns_write_answer(const struct atoll_dns_question *q,
                              const struct atoll_dns_answer *answer, uint8_t *out, size_t cap)
{
    size_t head = ATOLL_DNS_HEADER + q->wire_len, records = answer->kept - head;

    if (answer->truncated || records > room_for(q, cap))
        return write_truncated(q, answer->rcode, out);
    (void)write_reply_head(q, answer->rcode, out);
    memcpy(out + 6, answer->bytes + 6, 4); /* counts of both sections */
    memcpy(out + head, answer->bytes + head, records);
    return write_reply_end(q, answer->rcode, out, answer->kept);
}

/* Reads "NUMBER." backwards in the name: the part that ends at *end. */
static bool take_part(const char *name, size_t *end, int base, unsigned max, unsigned *ret)
{
    size_t first = *end;
    char part[4], *rest;

    while (first > 0 && name[first - 1] != '.')
        first--;
    if (*end == first || *end - first >= sizeof(part))
        return false;
    memcpy(part, name + first, *end - first);
    part[*end - first] = '\0';
    if (part[0] < '0' || (part[0] > '9' && part[0] < 'a'))
        return false;
    *ret = (unsigned)strtoul(part, &rest, base);
    *end = first > 0 ? first - 1 : 0;
    return *rest == '\0' && *ret <= max;
}

static bool ends_with(const char *name, const char *suffix, size_t *ret_before)
{
    size_t n = strlen(name), k = strlen(suffix);

    if (n <= k || strcmp(name + n - k, suffix) != 0)
        return false;
    *ret_before = n - k;
    return true;
}

bool atoll_dns_reverse_address(const char *name, struct in6_addr *ret)
{
    size_t end;
    unsigned part;

    *ret = (struct in6_addr){.s6_addr = {[10] = 0xff, [11] = 0xff}};
    if (ends_with(name, ".in-addr.arpa", &end)) {
        for (size_t i = 12; i < 16; i++) {
            if (end == 0 || !take_part(name, &end, 10, 255, &part))
                return false;
            ret->s6_addr[i] = (uint8_t)part;
        }
        return end == 0;
    }
    if (!ends_with(name, ".ip6.arpa", &end))
        return false;
    *ret = (struct in6_addr){.s6_addr = {0}};
    for (size_t i = 0; i < 32; i++) {
        if (end == 0 || !take_part(name, &end, 16, 15, &part))
            return false;
        ret->s6_addr[i / 2] |= (uint8_t)(i % 2 ? part : part << 4);
    }
    return end == 0;
}
