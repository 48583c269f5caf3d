// events_ns3 SCHEDULER FORM EVENTS SEED: 16 sources in ns-3, each of which schedules itself anew, exponentially
// distributed, 1000 ns on average: what BenchmarkEvents in internal/backend/sim does.
//
// Prints "events/s mean": events per second of CPU time, set-up left out, and the mean time between two events of one
// source, which must be near 1000.
//
// SCHEDULER is ns-3's type name, such as ns3::HeapScheduler. FORM is how a source is written:
//   usual   Simulator::Schedule with a member function, numbers from ns-3's ExponentialRandomVariable
//   spare   as little of ns-3 as will do: one event object for each source, scheduled again and again, so that nothing
//           is allocated, and numbers from the C++ library
// Instants are whole nanoseconds in both.

#include <ctime>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ns3/core-module.h"

namespace {

constexpr int kSources = 16;
constexpr double kMean = 1000;

uint64_t remaining; // events that have not happened yet

// Usual is a source as ns-3's manual has it.
class Usual {
public:
	explicit Usual(int stream)
	{
		m_random = ns3::CreateObject<ns3::ExponentialRandomVariable>();
		m_random->SetAttribute("Mean", ns3::DoubleValue(kMean));
		m_random->SetStream(stream);
		Again();
	}

private:
	void Again()
	{
		auto delay = static_cast<uint64_t>(m_random->GetValue());
		ns3::Simulator::Schedule(ns3::NanoSeconds(delay), &Usual::Fire, this);
	}

	void Fire()
	{
		if (--remaining == 0) {
			ns3::Simulator::Stop();
			return;
		}
		Again();
	}

	ns3::Ptr<ns3::ExponentialRandomVariable> m_random;
};

// Spare is its own event object.
class Spare : public ns3::EventImpl {
public:
	explicit Spare(int seed) : m_random(seed) {}

	void Again()
	{
		auto delay = static_cast<uint64_t>(m_exponential(m_random));
		ns3::Simulator::Schedule(ns3::NanoSeconds(delay), ns3::Ptr<ns3::EventImpl>(this));
	}

protected:
	void Notify() override
	{
		if (--remaining == 0) {
			ns3::Simulator::Stop();
			return;
		}
		Again();
	}

private:
	std::mt19937_64 m_random;
	std::exponential_distribution<double> m_exponential{1 / kMean};
};

double CPUSeconds()
{
	timespec t{};
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 5) {
		std::cerr << "usage: events_ns3 SCHEDULER FORM EVENTS SEED\n";
		return 2;
	}
	const std::string form = argv[2];
	const uint64_t events = std::stoull(argv[3]);
	const int seed = std::stoi(argv[4]);
	remaining = events;

	ns3::ObjectFactory scheduler;
	scheduler.SetTypeId(argv[1]);
	ns3::Simulator::SetScheduler(scheduler);
	ns3::RngSeedManager::SetSeed(seed);

	std::vector<std::unique_ptr<Usual>> usual;
	std::vector<ns3::Ptr<Spare>> spare;
	for (int i = 0; i < kSources; i++) {
		if (form == "usual") {
			usual.push_back(std::make_unique<Usual>(i));
		} else {
			spare.push_back(ns3::Create<Spare>(seed * kSources + i));
			spare.back()->Again();
		}
	}

	const double start = CPUSeconds();
	ns3::Simulator::Run();
	const double took = CPUSeconds() - start;

	const uint64_t happened = ns3::Simulator::GetEventCount();
	if (happened != events) {
		std::cerr << happened << " events; want " << events << "\n";
		return 1;
	}
	const auto until = static_cast<double>(ns3::Simulator::Now().GetNanoSeconds());
	std::cout << static_cast<double>(events) / took << " " << until * kSources / static_cast<double>(events) << "\n";
	ns3::Simulator::Destroy();
	return 0;
}
