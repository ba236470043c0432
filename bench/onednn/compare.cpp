// Compares builds of oneDNN on the convolutions the engine cares about.
// One source for API v2 (operation descriptors) and v3 (primitive descriptors only).
//
//   compare measure TAG [SUBSTRING]   one tab-separated record per layer, layout and pass
//   compare table FILE...             merges records (fastest of all runs), aligned table and sums
//   compare probe                     fallbacks, paddings, short heights, allocations at execution

#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <map>
#include <oneapi/dnnl/dnnl.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// ---------------------------------------------------------------- counting allocator (glibc)
// The executable's definitions pre-empt those of libc, also for calls made inside libdnnl.

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
}

namespace count {
std::atomic<std::int64_t> calls{0};
std::atomic<std::int64_t> bytes{0};
inline void add(std::size_t n) noexcept {
  calls.fetch_add(1, std::memory_order_relaxed);
  bytes.fetch_add(static_cast<std::int64_t>(n), std::memory_order_relaxed);
}
}  // namespace count

extern "C" {
void* malloc(std::size_t n) noexcept {
  count::add(n);
  return __libc_malloc(n);
}
void* calloc(std::size_t a, std::size_t b) noexcept {
  count::add(a * b);
  return __libc_calloc(a, b);
}
void* realloc(void* p, std::size_t n) noexcept {
  count::add(n);
  return __libc_realloc(p, n);
}
void* memalign(std::size_t a, std::size_t n) noexcept {
  count::add(n);
  return __libc_memalign(a, n);
}
void* aligned_alloc(std::size_t a, std::size_t n) noexcept {
  count::add(n);
  return __libc_memalign(a, n);
}
int posix_memalign(void** out, std::size_t a, std::size_t n) noexcept {
  count::add(n);
  *out = __libc_memalign(a, n);
  return *out ? 0 : 12;
}
}

namespace {

using dims = dnnl::memory::dims;
using tag = dnnl::memory::format_tag;
using mdesc = dnnl::memory::desc;

// ---------------------------------------------------------------- problem description

enum class pass { fwd, bwd_data, bwd_weights };
constexpr pass passes[] = {pass::fwd, pass::bwd_data, pass::bwd_weights};

const char* name(pass p) {
  switch (p) {
    case pass::fwd: return "fwd";
    case pass::bwd_data: return "bwd_d";
    case pass::bwd_weights: return "bwd_w";
  }
  return "?";
}

struct layout {
  const char* name;
  tag src, dst;
};
constexpr layout c8{"8c", tag::nChw8c, tag::nChw8c};
constexpr layout c16{"16c", tag::nChw16c, tag::nChw16c};
constexpr layout last{"nhwc", tag::nhwc, tag::nhwc};
constexpr layout plain8{"nchw>8c", tag::nchw, tag::nChw8c};
constexpr layout plain16{"nchw>16c", tag::nchw, tag::nChw16c};

struct conv {
  std::int64_t n, ic, oc, ih, iw, kh, kw, s, pt, pb, pl, pr;
  std::int64_t oh() const { return (ih + pt + pb - kh) / s + 1; }
  std::int64_t ow() const { return (iw + pl + pr - kw) / s + 1; }
};
constexpr conv square(std::int64_t n, std::int64_t ic, std::int64_t oc, std::int64_t hw, std::int64_t k, std::int64_t s,
                      std::int64_t p) {
  return {n, ic, oc, hw, hw, k, k, s, p, p, p, p};
}

struct layer {
  const char* name;
  conv c;
  std::int64_t real_ic;  // channels that carry data; the rest is zero padding
  bool first;            // also measured with a plain source
};

const layer layers[] = {
    {"3>64 3x3 224", square(1, 3, 64, 224, 3, 1, 1), 3, true},
    {"3(8)>64 3x3 224", square(1, 8, 64, 224, 3, 1, 1), 3, false},
    {"3(16)>64 3x3 224", square(1, 16, 64, 224, 3, 1, 1), 3, false},
    {"64>64 3x3 224", square(1, 64, 64, 224, 3, 1, 1), 64, false},
    {"64>64 3x3 512", square(1, 64, 64, 512, 3, 1, 1), 64, false},
    {"256>256 3x3 56", square(1, 256, 256, 56, 3, 1, 1), 256, false},
    {"512>512 3x3 14", square(1, 512, 512, 14, 3, 1, 1), 512, false},
    {"8x256>64 1x1 56", square(8, 256, 64, 56, 1, 1, 0), 256, false},
    {"8x64>256 1x1 56", square(8, 64, 256, 56, 1, 1, 0), 64, false},
    {"8x1024>256 1x1 14", square(8, 1024, 256, 14, 1, 1, 0), 1024, false},
    {"8x256>1024 1x1 14", square(8, 256, 1024, 14, 1, 1, 0), 256, false},
    {"8x64>64 3x3 56", square(8, 64, 64, 56, 3, 1, 1), 64, false},
    {"8x256>256 3x3 14", square(8, 256, 256, 14, 3, 1, 1), 256, false},
    {"8x3>64 7x7s2 224", square(8, 3, 64, 224, 7, 2, 3), 3, true},
    {"8x3(8)>64 7x7s2 224", square(8, 8, 64, 224, 7, 2, 3), 3, false},
    {"8x3(16)>64 7x7s2 224", square(8, 16, 64, 224, 7, 2, 3), 3, false},
    {"8x128>128 3x3s2 56", square(8, 128, 128, 56, 3, 2, 1), 128, false},
    {"8x512>1024 1x1s2 28", square(8, 512, 1024, 28, 1, 2, 0), 512, false},
};

double flops(const layer& l) {
  const conv& c = l.c;
  return 2.0 * double(c.n * c.oc * l.real_ic * c.kh * c.kw) * double(c.oh() * c.ow());
}

// Networks as multiples of the layers above; layers that are not in the list are represented by
// the nearest one of equal work. A stem (several entries of one group) takes its fastest variant.
struct share {
  double times;
  std::vector<const char*> variants;
  bool data_gradient = true;
};
struct mix {
  const char* name;
  std::vector<share> shares;
};
const std::vector<mix>& mixes() {
  static const std::vector<mix> all = {
      {"VGG-16 224",
       {{1, {"3>64 3x3 224", "3(8)>64 3x3 224", "3(16)>64 3x3 224"}, false},
        {2.5, {"64>64 3x3 224"}},
        {5, {"256>256 3x3 56"}},
        {3, {"512>512 3x3 14"}}}},
      {"ResNet-50 x8",
       {{1, {"8x3>64 7x7s2 224", "8x3(8)>64 7x7s2 224", "8x3(16)>64 7x7s2 224"}, false},
        {5, {"8x256>64 1x1 56"}},
        {6, {"8x64>256 1x1 56"}},
        {11, {"8x1024>256 1x1 14"}},
        {11, {"8x256>1024 1x1 14"}},
        {4.5, {"8x64>64 3x3 56"}},
        {8.5, {"8x256>256 3x3 14"}},
        {3, {"8x128>128 3x3s2 56"}},
        {3, {"8x512>1024 1x1s2 28"}}}},
  };
  return all;
}

// ---------------------------------------------------------------- shim over the two APIs

struct built {
  dnnl::primitive prim;
  std::string impl;
  std::size_t scratch = 0;
  mdesc src, wei, bia, dst, scratch_md;
};

built build(const dnnl::engine& eng, const conv& c, const layout& l, pass p) {
  using namespace dnnl;
  constexpr auto f32 = memory::data_type::f32;
  const mdesc src({c.n, c.ic, c.ih, c.iw}, f32, l.src);
  const mdesc wei({c.oc, c.ic, c.kh, c.kw}, f32, tag::any);
  const mdesc bia({c.oc}, f32, tag::x);
  const mdesc dst({c.n, c.oc, c.oh(), c.ow()}, f32, l.dst);
  const dims strides{c.s, c.s}, lo{c.pt, c.pl}, hi{c.pb, c.pr};
  primitive_attr attr;
  attr.set_scratchpad_mode(scratchpad_mode::user);
  constexpr auto direct = algorithm::convolution_direct;

#if DNNL_VERSION_MAJOR < 3
  auto forward = [&](prop_kind k) {
    return convolution_forward::primitive_desc(convolution_forward::desc(k, direct, src, wei, bia, dst, strides, lo, hi), attr,
                                               eng);
  };
  auto backward_data = [&](const convolution_forward::primitive_desc& hint) {
    return convolution_backward_data::primitive_desc(convolution_backward_data::desc(direct, src, wei, dst, strides, lo, hi), attr,
                                                     eng, hint);
  };
  auto backward_weights = [&](const convolution_forward::primitive_desc& hint) {
    return convolution_backward_weights::primitive_desc(
        convolution_backward_weights::desc(direct, src, wei, bia, dst, strides, lo, hi), attr, eng, hint);
  };
#else
  auto forward = [&](prop_kind k) {
    return convolution_forward::primitive_desc(eng, k, direct, src, wei, bia, dst, strides, lo, hi, attr);
  };
  auto backward_data = [&](const convolution_forward::primitive_desc& hint) {
    return convolution_backward_data::primitive_desc(eng, direct, src, wei, dst, strides, lo, hi, hint, attr);
  };
  auto backward_weights = [&](const convolution_forward::primitive_desc& hint) {
    return convolution_backward_weights::primitive_desc(eng, direct, src, wei, bia, dst, strides, lo, hi, hint, attr);
  };
#endif

  const auto fpd = forward(prop_kind::forward_training);
  auto common = [&](const auto& pd, primitive prim, mdesc w) {
    built b;
    b.prim = std::move(prim);
    b.impl = pd.impl_info_str();
    b.scratch_md = pd.scratchpad_desc();
    b.scratch = b.scratch_md.get_size();
    b.src = src, b.wei = std::move(w), b.bia = bia, b.dst = dst;
    return b;
  };
  switch (p) {
    case pass::fwd: return common(fpd, convolution_forward(fpd), fpd.weights_desc());
    case pass::bwd_data: {
      const auto pd = backward_data(fpd);
      return common(pd, convolution_backward_data(pd), pd.weights_desc());
    }
    case pass::bwd_weights: {
      const auto pd = backward_weights(fpd);
      return common(pd, convolution_backward_weights(pd), pd.diff_weights_desc());
    }
  }
  std::abort();
}

struct tensors {
  dnnl::memory src, wei, bia, dst, scratch;
};

void fill(dnnl::memory& m) {
  auto* p = static_cast<float*>(m.get_data_handle());
  const std::size_t n = m.get_desc().get_size() / sizeof(float);
  std::uint32_t x = 12345;
  for (std::size_t i = 0; i < n; ++i) {
    x = x * 1664525u + 1013904223u;
    p[i] = float(x >> 8) * (1.0f / 16777216.0f) - 0.5f;
  }
}

tensors allocate(const built& b, const dnnl::engine& eng) {
  tensors t{{b.src, eng}, {b.wei, eng}, {b.bia, eng}, {b.dst, eng}, {b.scratch_md, eng}};
  for (auto* m : {&t.src, &t.wei, &t.bia, &t.dst}) fill(*m);
  return t;
}

using arguments = std::vector<dnnl_exec_arg_t>;

arguments bind(const tensors& t, pass p) {
  const int s = p == pass::bwd_data ? DNNL_ARG_DIFF_SRC : DNNL_ARG_SRC;
  const int w = p == pass::bwd_weights ? DNNL_ARG_DIFF_WEIGHTS : DNNL_ARG_WEIGHTS;
  const int d = p == pass::fwd ? DNNL_ARG_DST : DNNL_ARG_DIFF_DST;
  arguments a{{s, t.src.get()}, {w, t.wei.get()}, {d, t.dst.get()}, {DNNL_ARG_SCRATCHPAD, t.scratch.get()}};
  if (p == pass::fwd) a.push_back({DNNL_ARG_BIAS, t.bia.get()});
  if (p == pass::bwd_weights) a.push_back({DNNL_ARG_DIFF_BIAS, t.bia.get()});
  return a;
}

void execute(const built& b, const arguments& a, dnnl::stream& st) {
  dnnl::error::wrap_c_api(dnnl_primitive_execute(b.prim.get(), st.get(), int(a.size()), a.data()), "execute");
  st.wait();
}

std::string version() {
  const dnnl_version_t* v = dnnl_version();
  return std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

// ---------------------------------------------------------------- measure

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

int measure(const char* run_tag, std::string_view only) {
  dnnl::engine eng(dnnl::engine::kind::cpu, 0);
  dnnl::stream st(eng);
  for (const layer& l : layers) {
    if (!only.empty() && std::string_view(l.name).find(only) == std::string_view::npos) continue;
    std::vector<layout> ls{c8, c16, last};
    if (l.first) ls.insert(ls.end(), {plain8, plain16});
    for (const layout& lo : ls) {
      for (pass p : passes) {
        double best = 0;
        std::string impl = "-";
        std::size_t scratch = 0;
        try {
          const built b = build(eng, l.c, lo, p);
          impl = b.impl;
          scratch = b.scratch;
          // The reference implementation takes seconds to minutes: named, not timed.
          if (!impl.starts_with("ref")) {
            const tensors t = allocate(b, eng);
            const arguments a = bind(t, p);
            execute(b, a, st);
            double spent = 0;
            for (int rep = 0; rep < 40 && (rep < 3 || spent < 0.08); ++rep) {
              const double t0 = seconds();
              execute(b, a, st);
              const double dt = seconds() - t0;
              spent += dt;
              best = rep == 0 ? dt : std::min(best, dt);
              if (spent > 0.6) break;
            }
          }
        } catch (const dnnl::error&) {
          impl = "unimplemented";
        }
        std::printf("%s\t%s\t%s\t%s\t%s\t%.9f\t%zu\t%s\n", version().c_str(), run_tag, l.name, lo.name, name(p), best, scratch,
                    impl.c_str());
      }
    }
  }
  return 0;
}

// ---------------------------------------------------------------- table

struct record {
  double t = std::numeric_limits<double>::infinity();
  std::size_t scratch = 0;
  std::string impl;
};
using key = std::pair<std::string, std::string>;  // version, ISA
using where = std::pair<key, std::string>;        // and layer|layout|pass

std::string at(std::string_view l, std::string_view lo, std::string_view p) {
  return std::string(l) + "|" + std::string(lo) + "|" + std::string(p);
}

int table(const std::vector<std::string>& files) {
  std::map<where, record> all;
  std::set<std::string> versions, isas;
  for (const auto& f : files) {
    std::ifstream in(f);
    for (std::string line; std::getline(in, line);) {
      std::vector<std::string> c;
      std::istringstream ss(line);
      for (std::string x; std::getline(ss, x, '\t');) c.push_back(x);
      if (c.size() != 8) continue;
      versions.insert(c[0]), isas.insert(c[1]);
      record& r = all[{{c[0], c[1]}, at(c[2], c[3], c[4])}];
      const double t = std::stod(c[5]);
      if (t > 0) r.t = std::min(r.t, t);
      r.scratch = std::stoull(c[6]);
      r.impl = c[7];
    }
  }
  auto find = [&](const std::string& v, const std::string& isa, const std::string& w) -> const record* {
    const auto it = all.find({{v, isa}, w});
    return it == all.end() ? nullptr : &it->second;
  };

  for (const auto& isa : isas) {
    std::printf("\n== ISA %s: GF/s (0.0: ref, not timed), scratchpad bytes, implementation\n%-22s %-9s %-6s", isa.c_str(), "layer",
                "layout", "pass");
    for (const auto& v : versions) std::printf(" %9s %10s %-24s", v.c_str(), "scratch", "impl");
    std::printf("\n");
    for (const layer& l : layers)
      for (const layout& lo : {c8, c16, last, plain8, plain16})
        for (pass p : passes) {
          const std::string w = at(l.name, lo.name, name(p));
          if (!find(*versions.begin(), isa, w)) continue;
          std::printf("%-22s %-9s %-6s", l.name, lo.name, name(p));
          for (const auto& v : versions)
            if (const record* r = find(v, isa, w))
              std::printf(" %9.1f %10zu %-24s", flops(l) / r->t * 1e-9, r->scratch, r->impl.c_str());
          std::printf("\n");
        }
  }

  // Sums. A stem inside a mix may use any declared channel count and a plain source.
  auto time = [&](const std::string& v, const std::string& isa, const share& s, const std::string& lo, pass p) {
    double best = std::numeric_limits<double>::infinity();
    for (const char* variant : s.variants)
      for (const std::string& l : {lo, "nchw>" + lo})
        if (const record* r = find(v, isa, at(variant, l, name(p)))) best = std::min(best, r->t);
    return best * s.times;
  };
  std::vector<mix> sums{{"all layers once", {mixes()[0].shares[0], mixes()[1].shares[0]}}};
  for (const layer& l : layers)
    if (l.real_ic != 3) sums[0].shares.push_back({1, {l.name}});
  sums.insert(sums.end(), mixes().begin(), mixes().end());
  std::printf("\n== sums, milliseconds (first layers of the networks: fastest variant, no data gradient)\n");
  std::printf("%-16s %-7s %-6s %-8s %9s %9s %9s %9s\n", "mix", "ISA", "layout", "version", "fwd", "bwd_d", "bwd_w", "total");
  for (const mix& m : sums)
    for (const auto& isa : isas)
      for (const char* lo : {"8c", "16c", "nhwc"})
        for (const auto& v : versions) {
          std::printf("%-16s %-7s %-6s %-8s", m.name, isa.c_str(), lo, v.c_str());
          double total = 0;
          for (pass p : passes) {
            double t = 0;
            for (const share& s : m.shares)
              if (p != pass::bwd_data || s.data_gradient) t += time(v, isa, s, lo, p);
            total += t;
            std::printf(" %9.1f", t * 1e3);
          }
          std::printf(" %9.1f\n", total * 1e3);
        }
  return 0;
}

// ---------------------------------------------------------------- probe

double largest_error(const built& b, tensors& t, const conv& c, pass p, dnnl::engine& eng, dnnl::stream& st) {
  constexpr auto f32 = dnnl::memory::data_type::f32;
  auto to_plain = [&](dnnl::memory& m, const dims& d, tag f) {
    dnnl::memory out({d, f32, f}, eng);
    dnnl::reorder(m, out).execute(st, m, out);
    st.wait();
    const auto* q = static_cast<const float*>(out.get_data_handle());
    return std::vector<float>(q, q + out.get_desc().get_size() / sizeof(float));
  };
  const dims sd{c.n, c.ic, c.ih, c.iw}, wd{c.oc, c.ic, c.kh, c.kw}, dd{c.n, c.oc, c.oh(), c.ow()};
  const auto src = to_plain(t.src, sd, tag::nchw), wei = to_plain(t.wei, wd, tag::oihw), dst = to_plain(t.dst, dd, tag::nchw),
             bia = to_plain(t.bia, {c.oc}, tag::x);
  execute(b, bind(t, p), st);
  const auto got = p == pass::fwd        ? to_plain(t.dst, dd, tag::nchw)
                   : p == pass::bwd_data ? to_plain(t.src, sd, tag::nchw)
                                         : to_plain(t.wei, wd, tag::oihw);
  std::vector<double> want(got.size(), 0.0);
  for (std::int64_t n = 0; n < c.n; ++n)
    for (std::int64_t o = 0; o < c.oc; ++o)
      for (std::int64_t y = 0; y < c.oh(); ++y)
        for (std::int64_t x = 0; x < c.ow(); ++x) {
          const auto di = std::size_t(((n * c.oc + o) * c.oh() + y) * c.ow() + x);
          if (p == pass::fwd) want[di] += bia[std::size_t(o)];
          for (std::int64_t kh = 0; kh < c.kh; ++kh)
            for (std::int64_t kw = 0; kw < c.kw; ++kw) {
              const auto iy = y * c.s - c.pt + kh, ix = x * c.s - c.pl + kw;
              if (iy < 0 || iy >= c.ih || ix < 0 || ix >= c.iw) continue;
              for (std::int64_t i = 0; i < c.ic; ++i) {
                const auto si = std::size_t(((n * c.ic + i) * c.ih + iy) * c.iw + ix);
                const auto wi = std::size_t(((o * c.ic + i) * c.kh + kh) * c.kw + kw);
                if (p == pass::fwd)
                  want[di] += double(src[si]) * wei[wi];
                else if (p == pass::bwd_data)
                  want[si] += double(dst[di]) * wei[wi];
                else
                  want[wi] += double(src[si]) * dst[di];
              }
            }
        }
  double e = 0;
  for (std::size_t i = 0; i < want.size(); ++i) e = std::max(e, std::abs(want[i] - double(got[i])));
  return e;
}

bool is_jit(const std::string& impl) { return impl.starts_with("jit") || impl.starts_with("brg"); }

int probe() {
  dnnl::engine eng(dnnl::engine::kind::cpu, 0);
  dnnl::stream st(eng);
  const layout ls[] = {c8, c16, last};
  std::printf("oneDNN %s, effective ISA %#x\n", version().c_str(), unsigned(dnnl::get_effective_cpu_isa()));

  std::printf("\n-- asymmetric padding, 64>64 3x3 224, padding_l={0,1} padding_r={1,1}\n");
  for (const layout& lo : ls)
    for (pass p : passes) {
      const conv c{1, 64, 64, 224, 224, 3, 3, 1, 0, 1, 1, 1};
      const built b = build(eng, c, lo, p);
      if (b.impl.starts_with("ref")) {
        std::printf("%-5s %-6s       -        %s\n", lo.name, name(p), b.impl.c_str());
        continue;
      }
      const tensors t = allocate(b, eng);
      const arguments a = bind(t, p);
      execute(b, a, st);
      double best = 1e9;
      for (int i = 0; i < 8; ++i) {
        const double t0 = seconds();
        execute(b, a, st);
        best = std::min(best, seconds() - t0);
      }
      const double f = 2.0 * double(c.oc * c.ic * c.kh * c.kw) * double(c.oh() * c.ow());
      std::printf("%-5s %-6s %7.1f GF/s  %s\n", lo.name, name(p), f / best * 1e-9, b.impl.c_str());
    }

  std::printf(
      "\n-- row tiles: kernel k, stride s, top and bottom padding 0..k-1, output rows 1 2 3 4 8\n"
      "   (implementation: number of cases; checked against a double precision loop at 16 channels)\n");
  for (const layout& lo : ls)
    for (pass p : passes)
      for (std::int64_t k : {1, 3, 5, 7})
        for (std::int64_t s : {1, 2}) {
          std::map<std::string, int> small, large;
          std::string refused, odd;
          double worst = 0;
          int wrong = 0;
          for (std::int64_t pt = 0; pt < k; ++pt)
            for (std::int64_t pb = 0; pb < k; ++pb)
              for (std::int64_t oh : {1, 2, 3, 4, 8}) {
                const std::int64_t ih = (oh - 1) * s + k - pt - pb;
                if (ih < 1) continue;
                const std::int64_t q = k / 2;
                const conv c{1, 16, 16, ih, 14, k, k, s, pt, pb, q, q};
                const conv w{1, 64, 64, ih, 56, k, k, s, pt, pb, q, q};
                char what[48];
                std::snprintf(what, sizeof what, " (%d,%d;%d)", int(pt), int(pb), int(oh));
                try {
                  const built b = build(eng, c, lo, p);
                  ++small[b.impl];
                  tensors t = allocate(b, eng);
                  const double e = largest_error(b, t, c, p, eng, st);
                  worst = std::max(worst, e);
                  if (!(e < 1e-4)) ++wrong;
                  const built bw = build(eng, w, lo, p);
                  ++large[bw.impl];
                  if (!is_jit(bw.impl)) odd += what;
                } catch (const dnnl::error&) {
                  refused += what;
                }
              }
          std::printf("%-5s %-6s k%d s%d  64ch:", lo.name, name(p), int(k), int(s));
          for (const auto& [i, n] : large) std::printf(" %s:%d", i.c_str(), n);
          std::printf("  16ch:");
          for (const auto& [i, n] : small) std::printf(" %s:%d", i.c_str(), n);
          std::printf("  max err %.1e wrong %d\n", worst, wrong);
          if (odd.size() > 120) odd = odd.substr(0, 120) + " ...";
          if (!odd.empty()) std::printf("        not jit (top,bottom;rows):%s\n", odd.c_str());
          if (!refused.empty()) std::printf("        refused:%s\n", refused.c_str());
        }

  std::printf("\n-- padding beyond the kernel, negative padding (64>64 3x3, 12 rows of 56)\n");
  for (const layout& lo : ls)
    for (const auto& [pt, pb] : {std::pair<int, int>{3, 0}, {4, 4}, {-1, 0}, {0, -1}, {-1, -1}})
      for (pass p : passes) {
        const conv c{1, 64, 64, 12, 56, 3, 3, 1, pt, pb, 1, 1};
        std::string r;
        try {
          const built b = build(eng, c, lo, p);
          tensors t = allocate(b, eng);
          char e[32];
          std::snprintf(e, sizeof e, "max err %.1e", largest_error(b, t, c, p, eng, st));
          r = b.impl + "  " + e;
        } catch (const dnnl::error& e) {
          r = std::string("refused: ") + e.what();
        }
        std::printf("%-5s %-6s top %2d bottom %2d  %s\n", lo.name, name(p), pt, pb, r.c_str());
      }

  std::printf("\n-- allocations per execution through the C interface (user scratchpad)\n");
  for (const layer& l : layers)
    for (const layout& lo : ls)
      for (pass p : passes) {
        if (l.c.ih == 512) continue;
        const built b = build(eng, l.c, lo, p);
        if (b.impl.starts_with("ref")) continue;
        const tensors t = allocate(b, eng);
        const arguments a = bind(t, p);
        execute(b, a, st);
        const auto n0 = count::calls.load(), b0 = count::bytes.load();
        constexpr int runs = 5;
        for (int i = 0; i < runs; ++i) execute(b, a, st);
        const auto n1 = count::calls.load(), b1 = count::bytes.load();
        std::printf("%-22s %-5s %-6s %5.1f calls %9.0f bytes  scratchpad %9zu  %s\n", l.name, lo.name, name(p),
                    double(n1 - n0) / runs, double(b1 - b0) / runs, b.scratch, b.impl.c_str());
      }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> a(argv + 1, argv + argc);
  try {
    if (a.size() >= 2 && a[0] == "measure") return measure(a[1].c_str(), a.size() > 2 ? a[2] : "");
    if (a.size() >= 2 && a[0] == "table") return table({a.begin() + 1, a.end()});
    if (a.size() == 1 && a[0] == "probe") return probe();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "compare: %s\n", e.what());
    return 1;
  }
  std::fprintf(stderr, "usage: compare measure TAG [SUBSTRING] | table FILE... | probe\n");
  return 2;
}
