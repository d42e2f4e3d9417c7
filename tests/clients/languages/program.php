<?php
// php-amqplib: what the test of this language expects line by line. Arguments: host, port, prefix of names.
require 'PhpAmqpLib/autoload.php';

use PhpAmqpLib\Connection\AMQPStreamConnection;
use PhpAmqpLib\Exception\AMQPProtocolChannelException;
use PhpAmqpLib\Message\AMQPMessage;
use PhpAmqpLib\Wire\AMQPTable;

[, $host, $port, $name] = $argv;
$connection = new AMQPStreamConnection($host, (int) $port, 'guest', 'guest');
$channel = $connection->channel();
$channel->confirm_select();
$exchange = "$name-exchange";
$queue = "$name-queue";
$channel->exchange_declare($exchange, 'topic', false, true, false);
$channel->queue_declare($queue, false, true, false, false, false, new AMQPTable(['x-max-length' => 1000]));
$channel->queue_bind($queue, $exchange, '*.orders');
echo "declared and bound\n";

$channel->basic_qos(0, 2, false);
$acknowledged = 0;
$channel->set_ack_handler(function () use (&$acknowledged) { $acknowledged++; });
$properties = ['delivery_mode' => 2, 'application_headers' => new AMQPTable(['number' => 1])];
foreach (['a', 'b', 'c'] as $body) {
    $channel->basic_publish(new AMQPMessage($body, $properties), $exchange, 'eu.orders');
}
$channel->basic_publish(new AMQPMessage('elsewhere'), $exchange, 'eu.returns');
$channel->wait_for_pending_acks(10);
echo $acknowledged === 4 ? "confirmed\n" : "$acknowledged acks\n";

$seen = [];
$tag = $channel->basic_consume($queue, '', false, false, false, false, function (AMQPMessage $message) use (&$seen) {
    if ($message->getBody() === 'b' && !$message->isRedelivered()) {
        $message->nack(true);
        return;
    }
    $headers = $message->get('application_headers')->getNativeData();
    if ($headers['number'] !== 1) {
        throw new Exception('headers');
    }
    $seen[] = $message->getBody();
    $message->ack();
});
while (count($seen) < 3) {
    $channel->wait(null, false, 10);
}
$channel->basic_cancel($tag);
sort($seen);
echo 'consumed ' . implode(' ', $seen) . "\n";

$channel->basic_publish(new AMQPMessage('d'), '', $queue);
$channel->wait_for_pending_acks(10);
$message = $channel->basic_get($queue);
$message->ack();
$nothing = $channel->basic_get($queue);
echo "got {$message->getBody()}, then " . ($nothing === null ? 'nothing' : $nothing->getBody()) . "\n";

try {
    $connection->channel()->queue_declare("$name-missing", true);
} catch (AMQPProtocolChannelException $error) {
    echo "refused {$error->amqp_reply_code} {$error->amqp_reply_text}\n";
}
$channel->queue_delete($queue);
$channel->exchange_delete($exchange);
$channel->close();
$connection->close();
echo "closed\n";
