package streamplace;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.storm.blobstore.ClientBlobStore;
import org.apache.storm.blobstore.InputStreamWithMeta;
import org.apache.storm.generated.KeyNotFoundException;
import org.apache.storm.metric.StormMetricsRegistry;
import org.apache.storm.scheduler.Cluster;
import org.apache.storm.scheduler.DefaultScheduler;
import org.apache.storm.scheduler.EvenScheduler;
import org.apache.storm.scheduler.ExecutorDetails;
import org.apache.storm.scheduler.IScheduler;
import org.apache.storm.scheduler.SchedulerAssignment;
import org.apache.storm.scheduler.SupervisorDetails;
import org.apache.storm.scheduler.Topologies;
import org.apache.storm.scheduler.TopologyDetails;
import org.apache.storm.scheduler.WorkerSlot;
import org.apache.storm.utils.Utils;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A scheduler for Nimbus that puts each executor where the placement of its topology says.
 *
 * <p>The placement is {@code {"place:port": ["first-last", ...]}}: a place is a host or the id of a supervisor, a port
 * is one of its worker ports, or {@code +1}, {@code +2}, ... for any free one; first and last are the task ids of an
 * executor. It is the value of {@value #PLACEMENT} in a blob of Nimbus' store, {@code streamplace-} and the topology's
 * id, which outlives Nimbus; where there is no blob, in the topology's configuration as it was submitted. It does not
 * go into the configuration later: supervisors restart all workers of a topology, moved or not, up to half a minute
 * after its configuration changes, and halt where that meets a start of a worker.
 *
 * <p>Only executors that wait for a worker are assigned; what runs is left alone. Topologies without a placement are
 * Storm's: its default scheduler does them. So are executors that a placement does not name, or names for a worker
 * that is not there or serves another topology; where no slot is free for them, they join a living worker of their
 * topology.
 */
public final class PlanScheduler implements IScheduler {
    public static final String PLACEMENT = "streamplace.placement";
    private static final String BLOB = "streamplace-";
    private static final Logger LOG = LoggerFactory.getLogger(PlanScheduler.class);

    /** What was last read of each topology; null where it has no placement. */
    private final Map<String, Map<?, ?>> placements = new HashMap<>();
    private Map<String, Object> settings;
    private ClientBlobStore store;

    /** What was last logged of each topology, so that a line is written once and not every few seconds. */
    private final Map<String, String> logged = new HashMap<>();

    /** Called by Storm since 2.2. */
    @Override
    public void prepare(Map<String, Object> conf, StormMetricsRegistry metrics) {
        settings = conf;
    }

    /** Called by Storm 2.0 and 2.1. */
    public void prepare(Map<String, Object> conf) {
        settings = conf;
    }

    @Override
    public Map<String, Object> config() {
        return Map.of();
    }

    @Override
    public void schedule(Topologies topologies, Cluster cluster) {
        refresh(topologies);
        List<TopologyDetails> planned = new ArrayList<>();
        List<TopologyDetails> others = new ArrayList<>();
        for (TopologyDetails topology : topologies.getTopologies()) {
            if (placements.containsKey(topology.getId())) { // else it is not known yet: it waits
                (placements.get(topology.getId()) == null ? others : planned).add(topology);
            }
        }
        for (TopologyDetails topology : planned) {
            place(topology, placements.get(topology.getId()), cluster);
        }
        // Storm's own scheduler frees workers that hold more than others, which a placement may want: it is asked
        // about topologies without a placement alone, and EvenScheduler, which frees nothing, about the rest of these
        for (TopologyDetails topology : planned) {
            if (!cluster.getUnassignedExecutors(topology).isEmpty()) {
                EvenScheduler.scheduleTopologiesEvenly(new Topologies(topology), cluster);
                join(topology, cluster);
            }
        }
        DefaultScheduler.defaultSchedule(new Topologies(others.toArray(new TopologyDetails[0])), cluster);
        for (TopologyDetails topology : planned) {
            report(topology, placements.get(topology.getId()), cluster);
        }
        logged.keySet().removeIf(id -> topologies.getById(id) == null);
    }

    /** Reads the placements; where the store does not answer, those that were read before count. */
    private void refresh(Topologies topologies) {
        try {
            store = store == null ? Utils.getClientBlobStore(settings) : store;
            for (TopologyDetails topology : topologies.getTopologies()) {
                placements.put(topology.getId(), read(topology));
            }
            for (String id : List.copyOf(placements.keySet())) {
                if (topologies.getById(id) == null && placements.remove(id) != null) {
                    store.deleteBlob(BLOB + id);
                }
            }
        } catch (Exception error) {
            LOG.warn("the blob store fails; placements are those that were read before", error);
            if (store != null) {
                store.close();
                store = null;
            }
        }
    }

    private Map<?, ?> read(TopologyDetails topology) throws Exception {
        Object value = topology.getConf().get(PLACEMENT);
        try (InputStreamWithMeta blob = store.getBlob(BLOB + topology.getId())) {
            value = Utils.fromCompressedJsonConf(blob.readAllBytes()).get(PLACEMENT);
        } catch (KeyNotFoundException error) {
            LOG.debug("{} is as it was submitted", topology.getId());
        }
        return value instanceof Map && ((Map<?, ?>) value).entrySet().stream().allMatch(PlanScheduler::isValid)
                ? (Map<?, ?>) value : null;
    }

    private static boolean isValid(Map.Entry<?, ?> entry) {
        return entry.getKey().toString().matches("\\S+:[+]?\\d{1,9}") && entry.getValue() instanceof Collection;
    }

    private static String nameOf(ExecutorDetails executor) {
        return executor.getStartTask() + "-" + executor.getEndTask();
    }

    /** Assigns the executors that wait to the workers that the placement names. */
    private static void place(TopologyDetails topology, Map<?, ?> placement, Cluster cluster) {
        Map<String, ExecutorDetails> waiting = new HashMap<>();
        cluster.getUnassignedExecutors(topology).forEach(executor -> waiting.put(nameOf(executor), executor));
        if (waiting.isEmpty()) {
            return;
        }
        Set<WorkerSlot> named = new HashSet<>();
        placement.keySet().forEach(key -> named.add(slotOf((String) key, cluster)));
        // ports that are named come first, so that "any free one" does not take them
        Map<String, Object> ordered = new TreeMap<>(Comparator.comparing((String key) -> isAny(key))
                .thenComparing(Comparator.naturalOrder()));
        placement.forEach((key, value) -> ordered.put((String) key, value));
        for (Map.Entry<String, Object> entry : ordered.entrySet()) {
            List<ExecutorDetails> executors = new ArrayList<>();
            Collection<?> members = (Collection<?>) entry.getValue();
            for (Object name : members) {
                ExecutorDetails executor = waiting.get(name);
                if (executor != null) {
                    executors.add(executor);
                }
            }
            if (executors.isEmpty()) {
                continue;
            }
            WorkerSlot slot = isAny(entry.getKey())
                    ? anySlot(entry.getKey(), members, topology, named, cluster) : slotOf(entry.getKey(), cluster);
            if (slot != null && assign(slot, topology, executors, cluster)) {
                executors.forEach(executor -> waiting.remove(nameOf(executor)));
            }
        }
    }

    /** Adds executors to a worker, with those that are in it; false where it serves another topology. */
    private static boolean assign(
            WorkerSlot slot, TopologyDetails topology, Collection<ExecutorDetails> executors, Cluster cluster) {
        Set<ExecutorDetails> all = new HashSet<>(executors);
        if (cluster.isSlotOccupied(slot)) {
            SchedulerAssignment own = cluster.getAssignmentById(topology.getId());
            if (own == null || !own.isSlotOccupied(slot)) {
                return false;
            }
            all.addAll(own.getSlotToExecutors().get(slot));
            cluster.freeSlot(slot);
        }
        cluster.assign(slot, topology.getId(), all);
        return true;
    }

    /** Puts executors that found no slot into the emptiest living worker of their topology. */
    private static void join(TopologyDetails topology, Cluster cluster) {
        Collection<ExecutorDetails> left = cluster.getUnassignedExecutors(topology);
        SchedulerAssignment own = cluster.getAssignmentById(topology.getId());
        if (left.isEmpty() || own == null || own.getSlots().isEmpty()) {
            return;
        }
        Map<WorkerSlot, Collection<ExecutorDetails>> workers = own.getSlotToExecutors();
        WorkerSlot emptiest = workers.keySet().stream()
                .min(Comparator.comparing((WorkerSlot slot) -> workers.get(slot).size())
                        .thenComparing(WorkerSlot::getId)).get();
        assign(emptiest, topology, new ArrayList<>(left), cluster);
    }

    private static boolean isAny(String key) {
        return key.substring(key.lastIndexOf(':') + 1).startsWith("+");
    }

    private static List<SupervisorDetails> supervisorsOf(String key, Cluster cluster) {
        String place = key.substring(0, key.lastIndexOf(':'));
        List<SupervisorDetails> found = new ArrayList<>();
        for (SupervisorDetails supervisor : cluster.getSupervisors().values()) {
            boolean meant = place.equals(supervisor.getId()) || place.equals(supervisor.getHost());
            if (meant && !cluster.isBlackListed(supervisor.getId())) {
                found.add(supervisor);
            }
        }
        found.sort(Comparator.comparing(SupervisorDetails::getId));
        return found;
    }

    /** Returns the slot of {@code place:port}, or null where it is not there. */
    private static WorkerSlot slotOf(String key, Cluster cluster) {
        if (isAny(key)) {
            return null;
        }
        int port = Integer.parseInt(key.substring(key.lastIndexOf(':') + 1));
        for (SupervisorDetails supervisor : supervisorsOf(key, cluster)) {
            if (supervisor.getAllPorts().contains(port)) {
                return new WorkerSlot(supervisor.getId(), port);
            }
        }
        return null;
    }

    /** Returns the worker of a place in which members run already, or else a free slot that no plan names. */
    private static WorkerSlot anySlot(
            String key, Collection<?> members, TopologyDetails topology, Set<WorkerSlot> named, Cluster cluster) {
        WorkerSlot free = null;
        SchedulerAssignment own = cluster.getAssignmentById(topology.getId());
        for (SupervisorDetails supervisor : supervisorsOf(key, cluster)) {
            if (own != null) {
                for (Map.Entry<ExecutorDetails, WorkerSlot> entry : own.getExecutorToSlot().entrySet()) {
                    if (entry.getValue().getNodeId().equals(supervisor.getId())
                            && members.contains(nameOf(entry.getKey())) && !named.contains(entry.getValue())) {
                        return entry.getValue();
                    }
                }
            }
            for (WorkerSlot slot : cluster.getAvailableSlots(supervisor)) {
                if (!named.contains(slot) && (free == null || slot.getPort() < free.getPort())) {
                    free = slot;
                }
            }
        }
        return free;
    }

    /** Logs, in one line, where a topology differs from its placement. */
    private void report(TopologyDetails topology, Map<?, ?> placement, Cluster cluster) {
        SchedulerAssignment own = cluster.getAssignmentById(topology.getId());
        Map<String, WorkerSlot> runs = new HashMap<>();
        if (own != null) {
            own.getExecutorToSlot().forEach((executor, slot) -> runs.put(nameOf(executor), slot));
        }
        Set<String> known = new HashSet<>();
        topology.getExecutors().forEach(executor -> known.add(nameOf(executor)));
        Set<String> elsewhere = new TreeSet<>();
        int count = 0;
        for (Map.Entry<?, ?> entry : placement.entrySet()) {
            String key = (String) entry.getKey();
            WorkerSlot slot = slotOf(key, cluster);
            Set<String> nodes = new HashSet<>();
            supervisorsOf(key, cluster).forEach(supervisor -> nodes.add(supervisor.getId()));
            for (Object name : (Collection<?>) entry.getValue()) {
                WorkerSlot at = runs.get(name);
                boolean right = at != null && (isAny(key) ? nodes.contains(at.getNodeId()) : at.equals(slot));
                if (known.remove(name) && !right) {
                    count++;
                    elsewhere.add(key + (nodes.isEmpty() ? " (not there)" : ""));
                }
            }
        }
        String line = "";
        if (count > 0) {
            line = count + " executors are not at " + String.join(", ", elsewhere);
        }
        if (!known.isEmpty()) {
            line += (line.isEmpty() ? "" : "; ") + "the placement does not name " + new TreeSet<>(known);
        }
        line = line.isEmpty() ? "as placed" : line;
        if (!line.equals(logged.put(topology.getId(), line))) {
            LOG.warn("{}: {}", topology.getId(), line);
        }
    }
}
